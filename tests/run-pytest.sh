#!/bin/bash
# run-pytest.sh FOLDER...: the Python tests of each folder, one pytest run each; the last line is "N passed, N failed[, N skipped]".
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3}
report=$(mktemp -d)
trap 'rm -rf "$report"' EXIT
rc=0
for folder in "$@"; do
  echo "== $folder"
  "$python" -m pytest "$folder" -q -p no:cacheprovider --durations=5 --durations-min=5 \
    --junitxml="$report/$(echo "$folder" | tr / _).xml" || rc=1
done
"$python" - "$report" <<'PY' || rc=1
import glob, sys, xml.etree.ElementTree as ET
total = failed = skipped = 0
for path in glob.glob(sys.argv[1] + "/*.xml"):
    for suite in ET.parse(path).getroot().iter("testsuite"):
        total += int(suite.get("tests")); skipped += int(suite.get("skipped"))
        failed += int(suite.get("failures")) + int(suite.get("errors"))
print(f"{total - failed - skipped} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(1 if failed or not total else 0)
PY
exit $rc
