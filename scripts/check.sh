#!/bin/bash
# check.sh: clang-format, clang-tidy and cppcheck over all C, and that generated files are up to date. Exit 1 with what is wrong.
set -uo pipefail
cd "$(dirname "$0")/.."
mapfile -t sources < <(git ls-files 'pkg/*.c' 'cmd/*.c' 'tests/*.c')
mapfile -t headers < <(git ls-files 'pkg/*.h' 'cmd/*.h' 'tests/*.h')
flags=(-std=gnu11 -D_GNU_SOURCE '-DVERSION="check"' '-DTEST_FIXTURES="fixtures"' -Ipkg -Itests/unit -Itests/sim -pthread -Wall -Wextra)
rc=0

part () { printf '== %s\n' "$1"; shift; "$@" || { rc=1; printf '   not clean\n'; }; }

tidy ()
{
  printf '%s\0' "${sources[@]}" \
    | xargs -0 -P "$(nproc)" -I{} sh -c 'out=$(clang-tidy --quiet "$1" -- '"$(printf '%q ' "${flags[@]}")"' 2>/dev/null) || { printf "%s\n" "$out"; exit 1; }' sh {}
}

part "clang-format" clang-format --dry-run --Werror "${sources[@]}" "${headers[@]}"
part "cppcheck" cppcheck --quiet --enable=warning,performance,portability --inline-suppr --error-exitcode=1 --std=c11 \
  -j "$(nproc)" -D_GNU_SOURCE '-DVERSION="check"' -DTEST_FIXTURES='"fixtures"' \
  --library=scripts/cppcheck.cfg \
  --suppress=missingIncludeSystem --suppress=resourceLeak --suppress=swapcontextCalled --suppress=getcontextCalled --suppress=makecontextCalled --suppress=unknownMacro --library=posix -Ipkg -Itests/unit "${sources[@]}"
part "clang-tidy" tidy
tools=$(tests/tools/build.sh 2>/dev/null | tail -n 1)
part "generated: CRD" /usr/bin/python3 scripts/gen-crd.py --check
part "generated: deploy/" env HELM="$tools/helm" scripts/gen-manifests.sh --check
[ $rc -eq 0 ] && echo "all clean"
exit $rc
