#!/bin/bash
# run.sh: everything `make test` runs, with a heading for each part; the last line counts all tests: "N passed, N failed[, N skipped]".
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0

# part NAME COMMAND...: runs it, adds up its last line.
part ()
{
  local name=$1 start=$SECONDS counts rc
  shift
  echo "=== $name"
  "$@" </dev/null 2>&1 | tee "$log"
  rc=${PIPESTATUS[0]}
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  if [ -n "$counts" ]; then
    passed=$((passed + $(sed -E 's/^([0-9]+) passed.*/\1/' <<<"$counts")))
    failed=$((failed + $(sed -E 's/.* ([0-9]+) failed.*/\1/' <<<"$counts")))
    [[ $counts != *skipped* ]] || skipped=$((skipped + $(sed -E 's/.* ([0-9]+) skipped.*/\1/' <<<"$counts")))
  fi
  if [ "$rc" -ne 0 ] && { [ -z "$counts" ] || [[ $counts == *" 0 failed"* ]]; }; then
    echo "$name: ended with code $rc"
    failed=$((failed + 1))
  fi
  echo "=== $name: done in $((SECONDS - start)) s"
}

# These take minutes to build the first time: begin with them while nothing else competes for the cores.
part "Kubernetes for the tests" tests/tools/build.sh
part "JobSet, LeaderWorkerSet and KubeRay for the tests" tests/tools/build.sh workloads
part "build" make --no-print-directory -j"$jobs" all unit-build
part "unit tests" make --no-print-directory unit
part "unit tests under ASan and UBSan" make --no-print-directory -j"$jobs" asan
part "unit tests under TSan" make --no-print-directory -j"$jobs" tsan
part "command line, integration and chart tests" tests/run-pytest.sh tests/cli tests/integration tests/chart

if [ $skipped -gt 0 ]; then
  echo "$passed passed, $failed failed, $skipped skipped"
else
  echo "$passed passed, $failed failed"
fi
[ $failed -eq 0 ] && [ $passed -gt 0 ]
