#!/usr/bin/env bash
# Instructions of one decision, with 4, 16 and 64 tasks and full queues, counted by valgrind: the
# same on every run, so a change shows even on a busy machine. `bash runtime/core/benches/instructions.sh`
set -euo pipefail
cd "$(dirname "$0")/../../.."
STEPS=20000
bench=$(cargo build --profile bench -p punctual-core --bench step --message-format=json |
  sed -n 's/.*"executable":"\([^"]*\/step-[^"]*\)".*/\1/p')
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# Instructions inside `decide`, which calls `step` and nothing else.
count() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*Load::decide*' \
    "$bench" --steps "$1" --tasks "$2" 2>"$out" >/dev/null
  sed -n 's/.*Collected : //p' "$out"
}

echo "| tasks | instructions a step |"
echo "| --- | --- |"
for tasks in 4 16 64; do
  # The difference leaves out the time until the queues are full.
  echo "| $tasks | $((($(count $((2 * STEPS)) $tasks) - $(count $STEPS $tasks)) / STEPS)) |"
done
