#!/bin/bash
# Writes deploy/operator.yaml, the chart rendered with its default values: the chart is the one source of both installs.
#
#   scripts/gen-manifests.sh [--check]
#
# --check writes nothing and exits 1 when the file on disk differs. HELM names the helm binary (default: helm in PATH).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
helm=${HELM:-helm}
output=$root/deploy/operator.yaml

check=false
case "${1:-}" in
  "") ;;
  --check) check=true ;;
  *)
    echo "gen-manifests.sh: unknown argument '$1'; usage: gen-manifests.sh [--check]" >&2
    exit 2
    ;;
esac

if ! command -v "$helm" >/dev/null; then
  echo "gen-manifests.sh: no helm at '$helm'; set HELM to a helm binary" >&2
  exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# helm prints a note about the symbolic link in crds/ on stderr; show it only when helm fails.
if ! "$helm" template ray-tpu-operator "$root/charts/ray-tpu-operator" --namespace ray-tpu-system \
  --kube-version 1.30.0 --skip-crds >"$work/rendered" 2>"$work/notes"; then
  cat "$work/notes" >&2
  exit 1
fi

{
  echo "# Written by scripts/gen-manifests.sh from charts/ray-tpu-operator; change the chart and run it again."
  # Labels that claim that Helm manages the object, and Helm's own comments, have no place here.
  sed -e '/^# Source: /d' -e '/^ *helm\.sh\/chart: /d' -e '/^ *app\.kubernetes\.io\/managed-by: Helm$/d' "$work/rendered"
} >"$work/operator.yaml"

if $check; then
  if ! cmp -s "$work/operator.yaml" "$output"; then
    echo "gen-manifests.sh: deploy/operator.yaml is not up to date: run scripts/gen-manifests.sh and commit the result" >&2
    exit 1
  fi
else
  cp "$work/operator.yaml" "$output"
  echo "$output"
fi
