#!/usr/bin/env bash
# First light on an NVIDIA GPU: everything that ten minutes can prove, without a hand in it: OUT=FOLDER bash .gpu/first-light.sh
#
# To be run in the tree's root; the folder that it lies in was made by testing/gpu/build.sh. Each part has its own time limit, a part that fails does not
# end the others, and none is begun that the budget has no room for. No setting of the GPU is changed.
#   BUDGET=570            seconds for all of it
#   PARTS="facts detect"  only these, in this order (default: all, the most telling first)
#   REHEARSAL=1           on the emulated driver: tiny sizes (the caller sets LD_LIBRARY_PATH and PUNCTUAL_EMULATED_DRIVER)
# Results, five files: summary.txt, log.txt, first-light.json.gz, parts.tar.gz, bench.tar.gz
set -u
repo=$PWD
: "${OUT:=$PWD/out}" "${BUDGET:=570}" "${REHEARSAL:=}"
: "${PARTS:=facts detect first daemon conformance tests engines bench}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${WORK:-$(mktemp -d)/first-light}; began=$SECONDS
mkdir -p "$OUT" "$work/bin" "$work/parts" || exit 1
log=$OUT/log.txt summary=$OUT/summary.txt; : >"$log"; : >"$summary"
left() { echo $((BUDGET - (SECONDS - began))); }
say() { printf '%s\n' "$*" | tee -a "$summary" "$log"; }
# try NAME SECONDS COMMAND...: its output in parts/NAME.txt and the log, a line in the summary.
try() {
  local name=$1 limit=$2 room start=$SECONDS rc w said; shift 2
  room=$(left); [ "$limit" -le "$room" ] || limit=$room
  if [ "$limit" -lt 5 ]; then say "$(printf '%-26s SKIPPED  no time left' "$name")"; return 99; fi
  printf '\n===== %s (limit %s s, %s s left): %s\n' "$name" "$limit" "$room" "$*" >>"$log"
  timeout -k 5 "$limit" "$@" >"$work/parts/$name.txt" 2>&1; rc=$?
  cat "$work/parts/$name.txt" >>"$log"
  case $rc in 0) w=ok;; 124 | 137) w=TIMEOUT;; *) w="rc=$rc";; esac
  said=$(grep -v '^[]{}[,]*$' "$work/parts/$name.txt" | tail -n 1 | cut -c 1-110)
  say "$(printf '%-26s %-8s %4d s  %s' "$name" "$w" $((SECONDS - start)) "$said")"
  return $rc
}
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done; wait 2>/dev/null
  tar -C "$work" -czf "$OUT/parts.tar.gz" parts 2>/dev/null
  [ ! -d "$work/bench" ] || tar -C "$work" -czf "$OUT/bench.tar.gz" bench 2>/dev/null
  say "finished after $((SECONDS - began)) s"; rm -f "$OUT"/*.tmp
  ls -l "$OUT"
}
trap finish EXIT
trap 'exit 143' TERM INT

# ---- The programs, and the driver. ----
if command -v xz >/dev/null; then xz -dc "$here/bin.tar.xz" | tar -x -C "$work/bin"
else python3 - "$here/bin.tar.xz" "$work/bin" <<'P'
import sys, tarfile
tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])
P
fi || { say "the programs cannot be unpacked"; exit 1; }
export PATH=$work/bin:$PATH HOME=$work/home XDG_CACHE_HOME=$work/cache; mkdir -p "$HOME" "$work/cache"
# cudarc asks the loader for libcuda.so, then libcuda.so.1. If the loader does not know it, it is looked for: never a stub.
if [ -z "$REHEARSAL" ] && ! ldconfig -p | grep -q 'libcuda\.so'; then
  found=$(find /usr/local/nvidia /usr/lib /usr/lib64 /usr/local -name 'libcuda.so.1' -not -path '*stubs*' -not -path '*compat*' 2>/dev/null | head -n 1)
  [ -z "$found" ] || export LD_LIBRARY_PATH=$(dirname "$found")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
command -v nvidia-smi >/dev/null || for d in /usr/local/nvidia/bin /usr/bin; do [ ! -x $d/nvidia-smi ] || PATH=$d:$PATH; done
say "commit $(cat "$here/commit" 2>/dev/null), $(date -u +%FT%TZ), unpacked after $((SECONDS - began)) s, LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}"
# How soon clocks fall once the last context is gone: `bench gpu --first` reads them before and after a step, without one.
if [ -z "$REHEARSAL" ] && command -v nvidia-smi >/dev/null; then
  timeout 8 nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw --format=csv,noheader -lms 100 >"$work/parts/clock-drop.csv" 2>&1 & drop=$!
  sleep 1; "$work/bin/holder" >>"$log" 2>&1 & h=$!; sleep 3; echo "context gone at $(date +%H:%M:%S.%N)" >>"$work/parts/clock-drop.csv"; kill $h; wait $h 2>/dev/null
  wait $drop 2>/dev/null; say "clock-drop: $(grep -c MHz "$work/parts/clock-drop.csv") readings, see parts/clock-drop.csv"
fi
# An idle context: the driver stays up between short processes, and clocks do not fall back between two readings.
"$work/bin/holder" >>"$log" 2>&1 & pids+=($!)
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=timestamp,pstate,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active \
    --format=csv,noheader,nounits -lms 500 >"$work/parts/clocks.csv" 2>/dev/null & pids+=($!)
fi
quick=${REHEARSAL:+--quick}

part_facts() {
  try facts 40 bash -c '
    for c in "uname -a" "cat /proc/driver/nvidia/version" "ls -l /dev/nvidia*" "nvidia-smi" "nvidia-smi -q" "ulimit -a" "nproc" "lscpu" \
      "cat /sys/kernel/mm/transparent_hugepage/enabled" "cat /proc/sys/kernel/sched_rt_runtime_us" "free -g" "ldconfig -p" "env | grep -E -e ^CUDA -e ^NVIDIA -e ^LD_ -e ^PATH -e ^OUT"; do
      echo "--- $c"; timeout 20 bash -c "$c" 2>&1 | grep -v -i -E "token|secret|passw|credential" | head -n 600; done
    echo "--- libcuda"; find / -xdev -name "libcuda.so*" 2>/dev/null; find /usr/local/nvidia -name "libcuda.so*" 2>/dev/null
    echo "--- host"; punctual doctor 2>&1 | head -n 80; true'
}
# Each mechanism by itself, with records of its own; then the usual order, whose records all that follows uses.
part_detect() {
  for m in stream-mask launch-mask green-contexts; do
    PUNCTUAL_GPU_MECHANISMS=$m try "detect-$m" 70 punctual board detect --json --again --records "$work/records-$m" ||:
    python3 - "$work/parts/detect-$m.txt" <<'P' 2>/dev/null | tee -a "$summary" "$log"
import json, sys
t = open(sys.argv[1]).read(); g = json.loads(t[t.index("{"):])["gpu"]; p = g["partitions"]
print("   ", json.dumps({k: v for k, v in p.items() if k != "units"})[:600], len(p.get("units", [])), "units")
P
  done
  # Where the place of masks is not known, or wrong, it is searched.
  rm -f "$work/parts/board.toml"; try detect 200 punctual board detect --search --write "$work/parts/board.toml" ||:
}
part_first() {
  rm -f "$OUT/first-light.json.gz"
  try first-light 200 punctual bench gpu --first --file "$OUT/first-light.json.gz" ||:
  sed -n '/^step  *verdict/,$p' "$work/parts/first-light.txt" | head -n 60 | tee -a "$summary"
}
part_daemon() { try daemon 180 bash "$here/daemon.sh" "$work" "$repo" "${REHEARSAL:-}" ||:; grep '^== ' "$work/parts/daemon.txt" | tee -a "$summary"; }
part_engines() { try engines 120 bash "$here/engines.sh" "$work" "$repo" ||:; grep '^== ' "$work/parts/engines.txt" | tee -a "$summary"; }
# Steps of the whole measurement, each by itself: what hangs costs itself alone.
bench() { try "bench-$1" "$2" punctual bench gpu --out "$work/bench" --only "$1" $quick ||:; grep -h -E '^\[.*(failed|not measured):' "$work/parts/bench-$1.txt" | sed 's/^/    /' | cut -c 1-300 | tee -a "$summary"; }
part_conformance() { bench conformance 75; bench numerics 75; bench networks 75; }
part_tests() {
  # The test binaries look for files where they were built.
  { read -r built; read -r target; } <"$here/built-at"
  { [ -e "$built" ] || { mkdir -p "$(dirname "$built")" && ln -s "$repo" "$built"; }; mkdir -p "$target/tmp"; } 2>/dev/null
  try tests 300 python3 "$here/tests.py" --binaries "$work/bin/tests" ||:
  grep -h -E '^[a-z_]+: |^  FAILED' "$work/parts/tests.txt" | sed 's/^/    /' | tee -a "$summary"
}
part_bench() {
  bench calibration 90; bench isolation 80; bench cudnn 100; bench preemption 50; bench resumption 40; bench memory 20; bench padding 40; bench frames 40
  bench prediction 60; bench disb 80; bench latency 20; bench peaks 20; bench known-answers 20
  try bench-report 20 punctual bench gpu --out "$work/bench" --report ||:
  grep -h -i -E 'missed|failed' "$work/parts/bench-report.txt" | head -n 20 | cut -c 1-200 | tee -a "$summary"
}
for part in $PARTS; do "part_$part"; done
echo; echo "---------------- summary"; cat "$summary"
