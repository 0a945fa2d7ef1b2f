#!/bin/bash
# A real Kubernetes control plane on loopback ports, for tests: etcd, kube-apiserver and, on request,
# kube-controller-manager. No node, no scheduler: Pods stay Pending until a test writes their status.
#
#   controlplane.sh start DIR [--controller-manager] [--crd FILE]... [--owner PID]
#   controlplane.sh restart-apiserver DIR
#   controlplane.sh save-state DIR STATE
#   controlplane.sh restore-state DIR STATE
#   controlplane.sh stop DIR
#
# Everything lives in DIR: certificates (pki/), data, logs (NAME.log), kubeconfig (admin, embedded certificates), env
# (shell lines: KUBECONFIG, PATH, kubectl's cache, KUBE_API_URL and the ports) and pids. start returns when all of it is
# ready.
#
#   --controller-manager   garbage collection by owner references, Deployments, Jobs, endpoints, service accounts, ...
#                          Without it no ServiceAccount is ever made, so the admission plugin that demands one is off.
#   --crd FILE             CustomResourceDefinitions to apply, server-side, before the controller manager starts: its
#                          garbage collector looks for new kinds only every 30 s
#   --owner PID            stop by itself when process PID is gone
#
# restart-apiserver stops kube-apiserver and starts it again on the same port; returns when it is ready. save-state copies
# etcd's data to the new folder STATE and restore-state brings them back, revisions included, as after a disaster; both
# stop everything for that and start it again.
#
# stop ends exactly the processes that start recorded, may be repeated, and leaves the files.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

ready_timeout=${RAY_TPU_OPERATOR_START_TIMEOUT:-60} # seconds for each component to become ready
term_patience=50                                    # tenths of a second between SIGTERM and SIGKILL
attempts=3                                          # a port found free may be taken before it is bound

fail () { printf 'controlplane: %s\n' "$@" >&2; exit 1; }
usage () { sed -n 's/^#   \(controlplane.sh .*\)/\1/p' "${BASH_SOURCE[0]}" >&2; exit 2; }

### Processes

# The kernel's start time of a process (field 22 of stat, counted after the command in parentheses): tells a pid from
# its reuse.
start_time_of ()
{
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  set -- ${stat##*) }
  [ "$1" != Z ] && printf '%s\n' "${20}"
}

# run NAME COMMAND...: starts a process in a session of its own, logging to NAME.log, and records it in pids, its command
# in NAME.command.
run ()
{
  local name=$1
  shift
  printf '%s\0' "$@" >"$dir/$name.command"
  setsid "$@" </dev/null >"$dir/$name.log" 2>&1 9>&- &
  disown $!
  printf '%s %s %s\n' "$name" $! "$(start_time_of $!)" >>"$dir/pids"
}

# is_ours PID START: the process recorded is still that process, and works in our folder, as all that run starts do.
# (Its executable would say less: an asset may be a script that executes another program.)
is_ours ()
{
  local cwd
  [ "$(start_time_of "$1")" = "$2" ] || return 1
  cwd=$(readlink "/proc/$1/cwd" 2>/dev/null) || return 1
  [ "${cwd% (deleted)}" = "$dir" ]
}

# alive NAME: the process of that name, as recorded, runs.
alive ()
{
  local name pid start
  while read -r name pid start; do
    [ "$name" = "$1" ] && is_ours "$pid" "$start" && return 0
  done <"$dir/pids"
  return 1
}

# end NAME: SIGTERM, a bounded wait, SIGKILL; to the whole session, which has no other members than what it started.
end ()
{
  local name pid start n
  while read -r name pid start; do
    # The owner's watch runs stop itself: it ends by returning.
    [ "$name" = "$1" ] && [ "$pid" != $$ ] && is_ours "$pid" "$start" || continue
    kill -TERM -- "-$pid" 2>/dev/null || true
    for ((n = 0; n < term_patience; n++)); do
      is_ours "$pid" "$start" || continue 2
      sleep 0.1
    done
    kill -KILL -- "-$pid" 2>/dev/null || true
    for ((n = 0; n < term_patience; n++)); do
      is_ours "$pid" "$start" || continue 2
      sleep 0.1
    done
    echo "controlplane: $name (pid $pid) survives SIGKILL" >&2
  done <"$dir/pids"
}

# Data is thrown away, so nothing needs a slow farewell; etcd goes last because the API server retries against it.
stop_all ()
{
  local name
  [ -f "$dir/pids" ] || return 0
  for name in watch kube-controller-manager kube-apiserver etcd; do
    end "$name"
  done
  rm -f "$dir/pids"
}

### Certificates

# certificate NAME SUBJECT EXTENSIONS: a key and a certificate of our CA in pki/.
certificate ()
{
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "pki/$1.key" -subj "$2" -out "pki/$1.csr"
  openssl x509 -req -in "pki/$1.csr" -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 30 -out "pki/$1.crt" \
    -extfile <(printf '%b' "$3\nkeyUsage=digitalSignature\nbasicConstraints=CA:FALSE\n")
}

make_certificates ()
(
  cd "$dir"
  umask 077
  mkdir -p pki
  exec 2>pki/openssl.log
  openssl req -x509 -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout pki/ca.key -out pki/ca.crt \
    -subj /CN=test-ca -days 30 -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
  certificate server /CN=kube-apiserver \
    'subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc\nextendedKeyUsage=serverAuth'
  certificate admin /O=system:masters/CN=admin 'extendedKeyUsage=clientAuth'
  # A group with all rights: the roles of the single controllers are of no interest to these tests.
  certificate kube-controller-manager /O=system:masters/CN=system:kube-controller-manager 'extendedKeyUsage=clientAuth'
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out pki/service-account.key
  openssl pkey -in pki/service-account.key -pubout -out pki/service-account.pub
)

# make_kubeconfig USER: prints one for that certificate.
make_kubeconfig ()
{
  cat <<YAML
apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: $url
    certificate-authority-data: $(base64 -w0 "$dir/pki/ca.crt")
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 "$dir/pki/$1.crt")
    client-key-data: $(base64 -w0 "$dir/pki/$1.key")
contexts:
- name: test
  context:
    cluster: test
    user: $1
    namespace: default
current-context: test
YAML
}

### Start

# Prints a port nobody listens on, below the range from which the kernel takes the ports of outgoing connections.
free_port ()
{
  local port
  while :; do
    port=$((20000 + (RANDOM << 15 | RANDOM) % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  printf '%s\n' "$port"
}

# The user's proxy and curl settings have no say in what goes over loopback.
get () { curl -q -sS --noproxy '*' --max-time 5 "$@" 2>/dev/null; }
api () { get --cacert "$dir/pki/ca.crt" --cert "$dir/pki/admin.crt" --key "$dir/pki/admin.key" "$url$1"; }
kubectl () { KUBERC=off "$bin/kubectl" --kubeconfig "$dir/kubeconfig" --cache-dir "$dir/kubectl-cache" "$@"; }

etcd_ready () { [[ $(get "http://127.0.0.1:$etcd_port/health") == *true* ]]; }
api_ready () { [ "$(api /readyz)" = ok ] && [[ $(api /api/v1/namespaces/default) == *'"Active"'* ]]; }
controllers_ready () { [[ $(api /api/v1/namespaces/default/serviceaccounts/default) == *'"ServiceAccount"'* ]]; }

port_was_taken () { grep -q 'address already in use' "$dir/$1.log"; }

# await NAME CHECK: waits until CHECK succeeds; fails at once when the process has ended. 75: its port was taken, try
# others.
await ()
{
  local name=$1 check=$2 until=$((SECONDS + ready_timeout))
  until "$check"; do
    if ! alive "$name"; then
      ! port_was_taken "$name" || return 75
      tail -n 25 "$dir/$name.log" >&2
      fail "$name ended while starting; the end of $dir/$name.log is above"
    fi
    if [ "$SECONDS" -ge "$until" ]; then
      tail -n 25 "$dir/$name.log" >&2
      fail "$name is not ready after $ready_timeout s; the end of $dir/$name.log is above"
    fi
    sleep 0.1
  done
}

start_etcd ()
{
  run etcd "$bin/etcd" --name=test --data-dir="$dir/etcd" --log-level=warn \
    --listen-client-urls="http://127.0.0.1:$etcd_port" --advertise-client-urls="http://127.0.0.1:$etcd_port" \
    --listen-peer-urls="http://127.0.0.1:$peer_port" --initial-advertise-peer-urls="http://127.0.0.1:$peer_port" \
    --initial-cluster="test=http://127.0.0.1:$peer_port" \
    --unsafe-no-fsync --snapshot-count=100000
}

# High in-flight limits: tests and benchmarks measure their subject, not the default limits of the API server.
start_apiserver ()
{
  local flags=()
  [ -n "$controllers" ] || flags+=(--disable-admission-plugins=ServiceAccount)
  run kube-apiserver "$bin/kube-apiserver" \
    --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --secure-port="$api_port" --endpoint-reconciler-type=none \
    --etcd-servers="http://127.0.0.1:$etcd_port" \
    --tls-cert-file="$dir/pki/server.crt" --tls-private-key-file="$dir/pki/server.key" \
    --client-ca-file="$dir/pki/ca.crt" --cert-dir="$dir/pki" \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$dir/pki/service-account.pub" \
    --service-account-signing-key-file="$dir/pki/service-account.key" \
    --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=RBAC --allow-privileged=true --profiling=false \
    --max-requests-inflight=3000 --max-mutating-requests-inflight=2000 "${flags[@]}"
}

# Left out: what acts on nodes. Above all the pod garbage collector, which deletes Pods whose node does not exist, as a
# test that plays the scheduler makes them.
start_controllers ()
{
  local left_out=pod-garbage-collector,node-lifecycle,node-ipam,node-route,taint-eviction,cloud-node-lifecycle
  make_kubeconfig kube-controller-manager >"$dir/pki/kube-controller-manager.kubeconfig"
  run kube-controller-manager "$bin/kube-controller-manager" \
    --kubeconfig="$dir/pki/kube-controller-manager.kubeconfig" --root-ca-file="$dir/pki/ca.crt" \
    --service-account-private-key-file="$dir/pki/service-account.key" --secure-port=0 --leader-elect=false \
    --kube-api-qps=500 --kube-api-burst=1000 --profiling=false \
    --controllers="*,-${left_out//,/-controller,-}-controller"
}

# kubectl wait gives up on a CRD that has no conditions yet, so it is asked again.
crds_established ()
{
  local file
  for file in "${crds[@]}"; do
    kubectl wait --for=condition=Established --timeout=5s -f "$file" >"$dir/crd.log" 2>&1 || return
  done
}

apply_crds ()
{
  local file
  for file in "${crds[@]}"; do
    kubectl apply --server-side -f "$file" >"$dir/crd.log" 2>&1 \
      || { cat "$dir/crd.log" >&2; fail "applying $file failed, the reason is above"; }
  done
  [ ${#crds[@]} -eq 0 ] || await kube-apiserver crds_established
}

write_env ()
{
  {
    printf 'export KUBECONFIG=%q\nexport PATH=%q:$PATH\n' "$dir/kubeconfig" "$bin"
    # kubectl's discovery cache goes with the control plane, the user's own preferences stay out of it.
    printf 'export KUBECACHEDIR=%q\nexport KUBERC=off\n' "$dir/kubectl-cache"
    printf 'export KUBE_API_URL=%q\nexport KUBE_API_PORT=%s\nexport ETCD_PORT=%s\n' "$url" "$api_port" "$etcd_port"
  } >"$dir/env"
}

# One try on one set of ports; 75 when one of them was taken meanwhile.
try_start ()
{
  local status=0
  rm -rf "$dir/etcd"
  etcd_port=$(free_port) peer_port=$(free_port) api_port=$(free_port)
  url=https://127.0.0.1:$api_port
  (umask 077 && make_kubeconfig admin >"$dir/kubeconfig")
  start_etcd
  await etcd etcd_ready || return
  start_apiserver
  await kube-apiserver api_ready || return
}

start ()
{
  local n status
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd -P)
  exec 9>"$dir/.lock"
  flock -n 9 || fail "another start in $dir is under way"
  [ ! -f "$dir/pids" ] || fail "$dir already has a control plane: 'controlplane.sh stop $dir' first"
  bin=$("$here/build.sh" | tail -n 1)

  started=$EPOCHREALTIME
  cd "$dir"
  trap 'stop_all' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  : >"$dir/pids"
  make_certificates \
    || { cat "$dir/pki/openssl.log" >&2; fail "openssl could not make the certificates, the reason is above"; }

  for ((n = 1; ; n++)); do
    status=0
    try_start || status=$?
    [ "$status" -ne 0 ] || break
    [ "$status" -eq 75 ] && [ "$n" -lt "$attempts" ] || fail "no free ports found in $attempts attempts"
    stop_all
    : >"$dir/pids"
  done

  apply_crds
  if [ -n "$controllers" ]; then
    start_controllers
    await kube-controller-manager controllers_ready
  fi
  write_env
  if [ -n "$owner" ]; then
    run watch "$BASH" -c 'tail --pid="$1" -f /dev/null; exec "$2" stop "$3"' watch \
      "$owner" "$here/controlplane.sh" "$dir"
  fi
  trap - EXIT
  LC_ALL=C printf 'control plane ready in %.1f s: %s, KUBECONFIG=%s\n' \
    "$(awk "BEGIN { print ${EPOCHREALTIME/,/.} - ${started/,/.} }")" "$url" "$dir/kubeconfig"
}

### Again

enter ()
{
  [ -f "$dir/pids" ] || fail "$dir has no control plane"
  cd "$dir"
  . "$dir/env"
  url=$KUBE_API_URL etcd_port=$ETCD_PORT
}

end_for_now ()
{
  end "$1"
  sed -i "/^$1 /d" "$dir/pids"
  mv "$dir/$1.log" "$dir/$1.log.before"
}

# run_again NAME CHECK: as it was started before; returns when CHECK succeeds.
run_again ()
{
  local args
  mapfile -d '' -t args <"$dir/$1.command"
  run "$1" "${args[@]}"
  await "$1" "$2"
}

restart_apiserver ()
{
  enter
  end_for_now kube-apiserver
  run_again kube-apiserver api_ready
}

# copy_state FROM TO, while nothing runs.
copy_state ()
{
  local controllers=
  enter
  ! alive kube-controller-manager || controllers=yes
  [ -z "$controllers" ] || end_for_now kube-controller-manager
  end_for_now kube-apiserver
  end_for_now etcd
  rm -rf "$2"
  cp -a "$1" "$2"
  run_again etcd etcd_ready
  run_again kube-apiserver api_ready
  [ -z "$controllers" ] || run_again kube-controller-manager controllers_ready
}

[ $# -ge 2 ] || usage
command=$1 dir=$2
shift 2
controllers= owner= state= crds=()
case $command in
  *-state)
    [ $# -eq 1 ] || usage
    state=$(readlink -m "$1")
    shift
    ;;
esac
while [ $# -gt 0 ]; do
  case $1 in
    --controller-manager) controllers=yes ;;
    --crd) [ $# -ge 2 ] || usage; crds+=("$(readlink -m "$2")"); shift ;;
    --owner) [ $# -ge 2 ] || usage; owner=$2; shift ;;
    *) usage ;;
  esac
  shift
done

case $command in
  start) start ;;
  restart-apiserver)
    dir=$(cd "$dir" && pwd -P)
    restart_apiserver
    ;;
  save-state)
    dir=$(cd "$dir" && pwd -P)
    copy_state "$dir/etcd" "$state"
    ;;
  restore-state)
    dir=$(cd "$dir" && pwd -P)
    copy_state "$state" "$dir/etcd"
    ;;
  stop)
    [ ! -d "$dir" ] || dir=$(cd "$dir" && pwd -P)
    stop_all
    ;;
  *) usage ;;
esac
