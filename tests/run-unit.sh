#!/bin/bash
# run-unit.sh BINARY...: runs cmocka test programs, a line for each; ends with "N passed, N failed". The output of a program is shown
# when it failed. A program that crashes or hangs (10 minutes) counts as one failure.
set -uo pipefail
passed=0 failed=0
for bin in "$@"; do
  name=$(basename "$bin")
  out=$(timeout --kill-after=5 "${UNIT_TIMEOUT:-600}" "$bin" 2>&1 </dev/null)
  rc=$?
  ok=$(grep -c '^\[       OK \]' <<<"$out")
  bad=$(grep -c '^\[  FAILED  \] [A-Za-z_0-9]*$' <<<"$out")
  # cmocka names each failed test twice: when it fails and in its summary.
  bad=$(( (bad + 1) / 2 ))
  if [ $rc -ne 0 ]; then
    [ "$bad" -gt 0 ] || bad=1
    printf '%s\n' "$out" | grep -v '^\[ RUN  \|^\[       OK' | sed 's/^/    /' | head -n 80
    [ $rc -lt 124 ] || echo "    $name ended with code $rc"
  elif [ "$ok" -eq 0 ]; then
    bad=1
    echo "    $name ran no test"
  fi
  printf '%-32s %3d passed, %d failed\n' "$name" "$ok" "$bad"
  passed=$((passed + ok)) failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
