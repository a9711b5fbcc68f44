#!/usr/bin/env bash
# Rehearses first-light.sh on the emulated driver, so that minutes on a GPU are not wasted on a mistake of ours. Tiny sizes;
# times mean nothing. Ends with 1 if a part failed or had no time.
#   testing/gpu/rehearse.sh TARGET_DIR FOLDER [TPCS]      after build.sh with the same two; TPCS: 8 if not said
#   PARTS="facts detect"                                  only these parts
# The driver is one whose place of stream masks nobody knows, and whose other words do harm to who writes them.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,6p' "$0"; exit 2; }
target=$(realpath "$1") folder=$(realpath "$2") tpcs=${3:-8}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
for name in libcuda.so libcuda.so.1; do ln -s "$target/${PROFILE:-release}/deps/libemulated_cuda.so" "$work/$name"; done
export LD_LIBRARY_PATH=$work PUNCTUAL_EMULATED_DRIVER="tpcs=$tpcs driver=13.2 mask-offset=1348 fragile=7" REHEARSAL=1
export OUT=${OUT:-$folder/out}
bash "$folder/first-light.sh"
# A part that fails does not end the script; a rehearsal with one has failed.
! grep -E '^[a-z-]+ +(rc=|TIMEOUT|SKIPPED)' "$OUT/summary.txt"
