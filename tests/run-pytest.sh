#!/bin/bash
# run-pytest.sh FOLDER...: the Python tests of each folder, one pytest run each; the last line is "N passed, N failed[, N skipped]".
# With RERUN_FAILED=1 failed tests get one more chance, and those that take it are named as flaky: for a CI whose machine others share.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3}
report=$(mktemp -d)
trap 'rm -rf "$report"' EXIT
rc=0
for folder in "$@"; do
  name=$(echo "$folder" | tr / _)
  pytest=("$python" -m pytest "$folder" -q -o cache_dir="$report/cache-$name" --durations=5 --durations-min=5)
  echo "== $folder"
  "${pytest[@]}" --junitxml="$report/$name.xml" && continue
  [ "${RERUN_FAILED:-}" = 1 ] || { rc=1; continue; }
  echo "== $folder: failed tests once more"
  "${pytest[@]}" --last-failed --last-failed-no-failures none --junitxml="$report/$name.again" || rc=1
done
"$python" - "$report" <<'PY' || rc=1
import glob, os, sys, xml.etree.ElementTree as ET

def tests(path):
    """{name: outcome} of one run."""
    outcomes = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        name = f'{case.get("classname")}::{case.get("name")}'
        outcomes[name] = "failed" if "failed" in (outcome, outcomes.get(name)) else outcome
    return outcomes

counts = {"passed": 0, "failed": 0, "skipped": 0}
for path in glob.glob(sys.argv[1] + "/*.xml"):
    first = tests(path)
    again = tests(path[:-4] + ".again") if os.path.exists(path[:-4] + ".again") else {}
    for name, outcome in first.items():
        if outcome == "failed" and again.get(name) == "passed":
            print(f"FLAKY: {name} failed, then passed")
            outcome = "passed"
        counts[outcome] += 1
print(f'{counts["passed"]} passed, {counts["failed"]} failed' + (f', {counts["skipped"]} skipped' if counts["skipped"] else ""))
sys.exit(1 if counts["failed"] or not counts["passed"] else 0)
PY
exit $rc
