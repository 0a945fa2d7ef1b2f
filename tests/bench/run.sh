#!/bin/bash
# run.sh: what `make bench` runs after the build (BUILD: where that is, default build). Prints what it measures as it goes
# and, at the end, one table of figures, targets and verdicts. A missed target is no error: the exit code only says whether
# everything could be measured. Takes some four minutes (and some more to build KubeRay, the first time); everything it starts is on loopback and ends with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(cd "${BUILD:-build}" && pwd)
export RAY_TPU_OPERATOR_BIN=$build/ray-tpu-operator

directory=$(mktemp -d)
finish ()
{
  tests/tools/controlplane.sh stop "$directory/control-plane" || true
  rm -rf "$directory"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

tests/tools/build.sh >/dev/null # minutes, the first time
"$build/bench/bench_admission" | tee "$directory/admission"
tests/tools/controlplane.sh start "$directory/control-plane" --crd deploy/crds/ray.io_rayclusters.yaml --owner $$
"${PYTHON:-/usr/bin/python3}" tests/bench/bench.py "$directory/control-plane" "$build" "$directory/admission"
