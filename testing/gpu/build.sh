#!/usr/bin/env bash
# Makes a folder for first-light.sh, to be carried to a machine with a GPU beside this tree: the programs, the test programs that
# a real driver can pass, and the scripts. Needs no GPU.
#   testing/gpu/build.sh TARGET_DIR FOLDER       in the root of the tree; FOLDER is best an ignored one, as .gpu
#   NO_CARGO=1: packs what is built already      LIMIT_MIB=64: of the tree and the folder together
#   PROFILE=debug: of a quick build, to see that the scripts work
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,6p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd) repo=$(cd "$(dirname "$0")/../.." && pwd)
target=$(realpath -m "$1") to=$(realpath -m "$2")
profile=${PROFILE:-release} flags=--release level=6
[ "$profile" = release ] || flags= level=0
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
export CARGO_TARGET_DIR=$target
if [ -z "${NO_CARGO:-}" ]; then
  (cd "$repo" && cargo build $flags --locked --bins -p punctual -p punctual-daemon -p punctual-bench
   cargo test $flags --locked --no-run -p punctual-device-cuda -p punctual-cuda-measuring -p punctual-daemon)
fi
mkdir -p "$work/bin/tests" "$to"
install -s -m 755 -t "$work/bin" "$target/$profile"/{punctual,punctuald,punctual-bench}
cc -O1 -o "$work/bin/holder" "$here/holder.c" -ldl
for name in $(python3 "$here/tests.py" --list); do
  file=$(ls -t "$target/$profile/deps/$name"-* 2>/dev/null | grep -v '\.d$' | head -n 1)
  [ -n "$file" ] && install -s -m 755 "$file" "$work/bin/tests/$name"
done
tar -C "$work/bin" -c . | xz -T0 --lzma2=preset=$level,dict=128MiB >"$to/bin.tar.xz"
install -m 755 -t "$to" "$here/first-light.sh" "$here/daemon.sh" "$here/engines.sh" "$here/tests.py"
"$target/$profile/punctual" compile "$repo/runtime/compile/tests/networks/dynamo.onnx" --normalise imagenet --answer classes \
  -o "$to/small.punctual" >/dev/null
git -C "$repo" rev-parse HEAD >"$to/commit"; printf '%s\n%s\n' "$repo" "$target" >"$to/built-at"
tree=$(cd "$repo" && git ls-files -z | xargs -0 du -cb | tail -n 1 | cut -f 1) carried=$(du -sb "$to" | cut -f 1)
limit=${LIMIT_MIB:-64}
echo "tree $((tree >> 20)) MiB + $(basename "$to") $((carried >> 20)) MiB of $limit MiB"
[ $((tree + carried)) -lt $((limit << 20)) ] || { echo "too large to be carried: leave test programs out"; exit 1; }
