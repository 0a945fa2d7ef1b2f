#!/bin/bash
# demo.sh: the tutorial "fine-tune models on multi-host TPUs with Ray and TorchTPU", its Kubernetes half, on this machine: a real
# kube-apiserver and etcd, the operator, one RayCluster. Everything lives in a temporary folder and is gone afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

step () { printf '\n\033[1m== %s\033[0m\n' "$*"; }
# Shows a command as one would type it, then runs it.
run ()
{
  local word line='$'
  for word in "$@"; do
    [[ $word != *[\ \{\*\"]* ]] || word="'$word'"
    line+=" $word"
  done
  printf '%s\n' "$line"
  "$@"
}

step "Building the operator (a few seconds) and, once, the Kubernetes parts it is shown on (minutes)"
make --no-print-directory -s -j"$(nproc)" all
tests/tools/build.sh >/dev/null

dir=$(mktemp -d "${TMPDIR:-/tmp}/ray-tpu-demo.XXXXXX")
operator=
cleanup ()
{
  trap - EXIT INT TERM
  if [ -n "$operator" ] && kill -TERM "$operator" 2>/dev/null; then
    wait "$operator" 2>/dev/null || true
  fi
  tests/tools/controlplane.sh stop "$dir/control-plane" >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

step "Starting a control plane: etcd, kube-apiserver, kube-controller-manager, and our RayCluster CRD"
tests/tools/controlplane.sh start "$dir/control-plane" --controller-manager --crd deploy/crds/ray.io_rayclusters.yaml --owner $$
. "$dir/control-plane/env"

free_port () { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
webhook=$(free_port) health=$(free_port) metrics=$(free_port)

step "Starting the operator: one process, controller and webhook"
build/ray-tpu-operator --kubeconfig="$KUBECONFIG" --webhook-bind-address=127.0.0.1:"$webhook" \
  --webhook-url=https://127.0.0.1:"$webhook" --health-bind-address=127.0.0.1:"$health" \
  --metrics-bind-address=127.0.0.1:"$metrics" --leader-elect=false 2>"$dir/operator.log" &
operator=$!
for _ in $(seq 100); do
  curl -sf "http://127.0.0.1:$health/readyz" >/dev/null && break
  kill -0 "$operator" 2>/dev/null || { cat "$dir/operator.log" >&2; exit 1; }
  sleep 0.1
done
curl -sf "http://127.0.0.1:$health/readyz" >/dev/null || { echo "the operator is not ready:" >&2; cat "$dir/operator.log" >&2; exit 1; }
grep -o 'ready ms=.*' "$dir/operator.log"
awk '/^VmRSS/ { printf "resident memory: %.1f MiB\n", $2 / 1024 }' "/proc/$operator/status"

step "Applying the tutorial's manifest: one v6e slice, topology 4x4, 16 chips on 4 hosts"
sed 's|\${IMAGE_URI}|ray-torchtpu:demo|' tests/fixtures/tutorial_a_v6e_4x4.yaml >"$dir/raycluster.yaml"
run kubectl apply -f "$dir/raycluster.yaml"
for _ in $(seq 100); do
  workers=$(kubectl get pods -l ray.io/node-type=worker -o name | wc -l)
  [ "$workers" -eq 4 ] && break
  sleep 0.1
done
[ "$workers" -eq 4 ] || { echo "expected 4 worker Pods, found $workers" >&2; cat "$dir/operator.log" >&2; exit 1; }

step "The Services: one for the head, one headless so that the hosts of a slice find each other by name"
run kubectl get services -l ray.io/cluster=ray-torchtpu-cluster
run kubectl get services -l ray.io/headless-worker-svc=ray-torchtpu-cluster

step "The Pods: a head and the 4 hosts of the slice (Pending: this control plane has no nodes, and no TPU is paid for)"
run kubectl get pods -L ray.io/worker-group-replica-index,ray.io/replica-host-index

step "What the tutorial looks at: the environment of the first worker"
run kubectl get pods -l ray.io/node-type=worker \
  -o=jsonpath='{range .items[0].spec.containers[0].env[*]}{.name}={.value}{"\n"}{end}'

step "Every host of the slice has its own TPU_WORKER_ID"
kubectl get pods -l ray.io/node-type=worker \
  -o=jsonpath='{range .items[*]}{.spec.hostname}.{.spec.subdomain}{"\t"}{.spec.containers[0].env[?(@.name=="TPU_WORKER_ID")].value}{"\n"}{end}' \
  | sort | column -t -N HOST,TPU_WORKER_ID

step "What the cluster's own status and events say"
run kubectl get raycluster ray-torchtpu-cluster
run kubectl get events --field-selector involvedObject.kind=RayCluster -o custom-columns=REASON:.reason,MESSAGE:.message

step "Deleting the RayCluster: Kubernetes' garbage collector takes the rest"
run kubectl delete raycluster ray-torchtpu-cluster
for _ in $(seq 300); do
  left=$(kubectl get pods,services -l ray.io/cluster=ray-torchtpu-cluster -o name | wc -l)
  [ "$left" -eq 0 ] && break
  sleep 0.1
done
[ "$left" -eq 0 ] || { echo "$left objects are left" >&2; exit 1; }
echo "nothing is left"

step "Stopping everything"
