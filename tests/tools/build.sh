#!/bin/bash
# build.sh [kubernetes|workloads]: builds a set of what the tests run against, once, and prints the folder it is in as the
# last line of stdout. Progress goes to stderr.
#
#   kubernetes   kube-apiserver, kube-controller-manager, kubectl, etcd, helm: go.mod here
#   workloads    the controllers of JobSet and LeaderWorkerSet (workloads/go.mod) and of KubeRay (kuberay/go.mod, because
#                it needs older libraries). Their manifests are next to them, in manifests/NAME/
#
# The folder is ${RAY_TPU_OPERATOR_CACHE:-~/.cache/ray-tpu-operator}/<set>-<version>-<arch>-<hash>; the hash covers
# go.mod, go.sum and the recipe below. Each binary appears in it by rename, complete; a killed build is resumed by the
# next run, and concurrent runs wait for one another.
#
# KUBEBUILDER_ASSETS, when set, names a folder with kube-apiserver, etcd and kubectl: these (and whatever else of the
# set kubernetes it holds) are used as they are and only the rest is built. The printed folder then holds links.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
set=${1:-kubernetes}
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
cache=${RAY_TPU_OPERATOR_CACHE:-$HOME/.cache/ray-tpu-operator}
assets=

heartbeat=10        # seconds between two signs of life
lock_patience=3600  # seconds to wait for another build

say () { printf 'tools: %s\n' "$*" >&2; }
fail () { printf 'tools: %s\n' "$@" >&2; exit 1; }

# version_of MODULE GO.MOD: what go.mod requires.
version_of () { sed -n "s|^\(require \)\?[[:space:]]*$1 \(v[^ ]*\).*|\2|p" "$2" | head -n 1; }

# Each recipe sets names (the long build first, so that the total is known early), and for each of them the folder of
# its go.mod, the package, the linker's flags and, where there is one, the module's folder of manifests.
declare -A folder_of package_of stamps_of manifests_of=()

kubernetes_recipe ()
{
  local kubernetes helm major minor package stamps helm_stamps name
  assets=${KUBEBUILDER_ASSETS:-}
  kubernetes=$(version_of k8s.io/kubernetes "$here/go.mod")
  helm=$(version_of helm.sh/helm/v3 "$here/go.mod")
  [[ $kubernetes =~ ^v([0-9]+)\.([0-9]+)\. ]] || fail "go.mod requires no k8s.io/kubernetes"
  major=${BASH_REMATCH[1]} minor=${BASH_REMATCH[2]}

  # A binary built by 'go build' reports v0.0.0-master unless it is told its version.
  stamps="-s -w"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    stamps+=" -X $package.gitVersion=$kubernetes -X $package.gitMajor=$major -X $package.gitMinor=$minor"
  done
  helm_stamps="-s -w -X helm.sh/helm/v3/internal/version.version=$helm"
  for package in helm.sh/helm/v3/pkg/chartutil helm.sh/helm/v3/pkg/lint/rules; do
    helm_stamps+=" -X $package.k8sVersionMajor=$major -X $package.k8sVersionMinor=$minor"
  done

  title="Kubernetes $kubernetes"
  cost="5 to 15 minutes and about 5 GB in Go's caches"
  version=$kubernetes
  names=(kube-apiserver kube-controller-manager kubectl etcd helm)
  package_of=(
    [kube-apiserver]=k8s.io/kubernetes/cmd/kube-apiserver
    [kube-controller-manager]=k8s.io/kubernetes/cmd/kube-controller-manager
    [kubectl]=k8s.io/kubernetes/cmd/kubectl
    [etcd]=go.etcd.io/etcd/server/v3
    [helm]=helm.sh/helm/v3/cmd/helm
  )
  stamps_of=(
    [kube-apiserver]=$stamps [kube-controller-manager]=$stamps [kubectl]=$stamps [etcd]="-s -w" [helm]=$helm_stamps
  )
  for name in "${names[@]}"; do folder_of[$name]=$here; done
}

workloads_recipe ()
{
  local kuberay=github.com/ray-project/kuberay/ray-operator jobset=sigs.k8s.io/jobset lws=sigs.k8s.io/lws name
  version=$(version_of $kuberay "$here/kuberay/go.mod")
  title="JobSet $(version_of $jobset "$here/workloads/go.mod"), LeaderWorkerSet $(version_of $lws "$here/workloads/go.mod")"
  title+=", KubeRay $version"
  cost="3 to 8 minutes and about 2 GB in Go's caches"
  version=kuberay-$version
  names=(kuberay jobset lws)
  folder_of=([jobset]=$here/workloads [lws]=$here/workloads [kuberay]=$here/kuberay)
  package_of=([jobset]=$jobset [lws]=$lws/cmd [kuberay]=$kuberay)
  manifests_of=([jobset]=$jobset/config/components [lws]=$lws/config [kuberay]=$kuberay/config)
  for name in "${names[@]}"; do stamps_of[$name]="-s -w"; done
}

case $set in
  kubernetes | workloads) "${set}_recipe" ;;
  *) fail "there is no set '$set': give kubernetes or workloads" ;;
esac

arch=$(uname -m)
hash=$({
  for folder in $(printf '%s\n' "${folder_of[@]}" | sort -u); do cat "$folder/go.mod" "$folder/go.sum"; done
  for name in "${names[@]}"; do echo "$name ${package_of[$name]} ${stamps_of[$name]}"; done
} | sha256sum | cut -c 1-12)
bin=$cache/$set-$version-$arch-$hash

# What is to be built: all, or what the assets folder lacks.
wanted=("${names[@]}")
view=$bin
if [ -n "$assets" ]; then
  [ -d "$assets" ] || fail "KUBEBUILDER_ASSETS is '$assets', which is no folder: correct it or unset it"
  assets=$(cd "$assets" && pwd)
  wanted=()
  for name in "${names[@]}"; do
    [ -x "$assets/$name" ] || wanted+=("$name")
  done
  view=$cache/assets-$(printf '%s' "$assets $hash" | sha256sum | cut -c 1-12)
fi

# Prints the wanted binaries that are not there yet.
unbuilt ()
{
  local name
  for name in "${wanted[@]}"; do
    [ -x "$bin/$name" ] || printf '%s\n' "$name"
  done
}

go_pid=
log=
cleanup ()
{
  [ -z "$go_pid" ] || kill -- "-$go_pid" 2>/dev/null || kill "$go_pid" 2>/dev/null || true
  [ -z "$log" ] || rm -f "$log"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

take_lock ()
{
  local waited=0
  mkdir -p "$bin" || fail "cannot create $bin: set RAY_TPU_OPERATOR_CACHE to a folder that can be written"
  exec 9>"$bin/.lock"
  until flock -w "$heartbeat" 9; do
    waited=$((waited + heartbeat))
    [ "$waited" -lt "$lock_patience" ] \
      || fail "another build has held $bin/.lock for $waited s: end it, then try again"
    say "waiting for another build of the same tools ($waited s)"
  done
}

# The user's own Go settings may pin a toolchain, a workspace or build flags; those of proxy and checksums are kept.
go_settings ()
{
  export GOTOOLCHAIN=auto GOFLAGS=-mod=readonly GOWORK=off GO111MODULE=on CGO_ENABLED=0
  GOOS=$("$go" env GOHOSTOS) GOARCH=$("$go" env GOHOSTARCH)
  export GOOS GOARCH
  unset GOEXPERIMENT
}

# Copied, because Go's module cache may be cleaned.
copy_manifests ()
{
  local name=$1 from=${manifests_of[$1]:-} folder
  [ -n "$from" ] || return 0
  folder=$(cd "${folder_of[$name]}" && go_settings && "$go" list -f '{{.Module.Dir}}|{{.Module.Path}}' "${package_of[$name]}")
  from=${folder%|*}/${from#"${folder#*|}"/}
  rm -rf "$bin/manifests/$name"
  mkdir -p "$bin/manifests"
  cp -r --no-preserve=mode "$from" "$bin/manifests/$name"
}

# build NAME N TOTAL: builds one binary next to its place and renames it there. In a session of its own, so that cleanup
# ends the compilers too.
build ()
{
  local name=$1 n=$2 total=$3 start=$SECONDS beat=$SECONDS fetched status
  say "[$n/$total] $name"
  (
    cd "${folder_of[$name]}"
    go_settings
    exec setsid "$go" build -trimpath -buildvcs=false -ldflags "${stamps_of[$name]}" \
      -o "$bin/.$name.new" "${package_of[$name]}"
  ) </dev/null >"$log" 2>&1 &
  go_pid=$!
  while kill -0 "$go_pid" 2>/dev/null; do
    sleep 0.2
    if [ $((SECONDS - beat)) -ge "$heartbeat" ]; then
      beat=$SECONDS
      fetched=$(grep -c '^go: downloading' "$log" || true)
      say "[$n/$total] $name: $((SECONDS - start)) s$([ "$fetched" = 0 ] || echo ", $fetched modules fetched")"
    fi
  done
  status=0
  wait "$go_pid" || status=$?
  go_pid=
  [ "$status" -ne 0 ] || copy_manifests "$name" 2>>"$log" || status=$?
  if [ "$status" -ne 0 ]; then
    rm -f "$bin/.$name.new"
    return "$status"
  fi
  mv -f "$bin/.$name.new" "$bin/$name"
  say "[$n/$total] $name: done in $((SECONDS - start)) s"
}

# Failures of the network are worth another try, those of the compiler are not.
network_failed ()
{
  grep -qE 'dial tcp|i/o timeout|connection re|unexpected EOF|TLS handshake|: 50[0-9] |no such host' "$log"
}

build_missing ()
{
  local missing n=0 name try
  mapfile -t missing < <(unbuilt)
  [ ${#missing[@]} -gt 0 ] || return 0

  go=$("$here/find-go.sh") || fail "no Go 1.21 or newer found; 'make deps' installs one, or put one in PATH"
  rm -f "$bin"/.*.new
  log=$(mktemp)
  say "building ${missing[*]} ($title) with $go"
  say "this takes $cost, once; the result stays in $bin"
  for name in "${missing[@]}"; do
    n=$((n + 1))
    for try in 1 2 3; do
      build "$name" "$n" "${#missing[@]}" && break
      tail -n 15 "$log" >&2
      [ "$try" -lt 3 ] && network_failed \
        || fail "building $name failed, the reason is above" \
                "remedy: when modules could not be fetched, check the network and GOPROXY, then try again"
      say "[$n/${#missing[@]}] $name: the network failed, trying again"
      sleep $((try * 5))
    done
  done
  say "all built in $SECONDS s"
}

# Links to the assets and, for what they lack, to our own binaries.
make_view ()
{
  local name from
  mkdir -p "$view"
  for name in "${names[@]}"; do
    from=$assets/$name
    [ -x "$from" ] || from=$bin/$name
    [ "$(readlink "$view/$name" 2>/dev/null)" != "$from" ] || continue
    ln -sfn "$from" "$view/.$name.$$"
    mv -fT "$view/.$name.$$" "$view/$name"
  done
}

if [ -n "$(unbuilt)" ]; then
  take_lock
  build_missing
fi
[ -z "$assets" ] || make_view
printf '%s\n' "$view"
