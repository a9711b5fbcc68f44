#!/usr/bin/env bash
# Instructions of one decision, with 4, 16 and 64 tasks and full queues, also with 17 places, and with a thousand paged models,
# counted by valgrind: the same on every run, so a change shows even on a busy machine.
# `bash testing/policies/benches/instructions.sh`; with `--check` it fails beyond instructions.budget.
set -euo pipefail
cd "$(dirname "$0")/../../.."
STEPS=20000
bench=$(cargo build --profile bench -p punctual-policy-testing --bench step --message-format=json-render-diagnostics |
  sed -n 's/.*"executable":"\([^"]*\/step-[^"]*\)".*/\1/p')
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# Instructions inside a function: `decide` calls `step` and nothing else, `record_step` writes into the recorder's ring.
count() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="*$1*" \
    "$bench" --steps "$2" --tasks "$3" $4 2>"$out" >/dev/null
  sed -n 's/.*Collected : //p' "$out"
}

exceeded=0
echo "| tasks | instructions a step | budget |"
echo "| --- | --- | --- |"
for load in "4" "16" "64" "16 --places" "64 --places" "1000 --paged"; do
  tasks=${load%% *}
  places=${load#"$tasks"}
  # The difference leaves out the time until the queues are full.
  step=$((($(count Load::decide $((2 * STEPS)) "$tasks" "$places") - $(count Load::decide $STEPS "$tasks" "$places")) / STEPS))
  # A benchmark that ended early has counted nothing.
  if ((step <= 0)); then
    echo "nothing was counted with $load tasks" >&2
    exit 1
  fi
  budget=$(sed -n "s/^$load: //p" testing/policies/benches/instructions.budget)
  echo "| $load | $step | $budget |"
  if ((step > budget)); then exceeded=1; fi
done
record=$(($(count record_step $STEPS 4 --recorded) / STEPS))
budget=$(sed -n "s/^recording: //p" testing/policies/benches/instructions.budget)
echo "| recording, in addition | $record | $budget |"
if ((record <= 0 || record > budget)); then exceeded=1; fi
if [[ "${1:-}" == --check && $exceeded == 1 ]]; then
  echo "a decision takes more instructions than its budget allows" >&2
  exit 1
fi
