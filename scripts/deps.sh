#!/bin/bash
# deps.sh [build|test|check]: installs what this project needs from Debian's archive, and only what is missing.
#
#   build  compiler and libraries of the two binaries
#   test   build, and what the tests need: Python, valgrind, Go (for the Kubernetes parts of tests/tools)
#   check  build, and the static checkers
#
# Without an argument: test. Floor: Debian 12. Uses sudo when not root; needs neither a terminal nor an earlier apt-get
# update.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
find_go=$here/../tests/tools/find-go.sh
set_name=${1:-test}

# libc6-dev is only recommended by gcc, and recommendations are not installed here.
build=(gcc libc6-dev make pkg-config libcurl4-openssl-dev libcjson-dev libmicrohttpd-dev libgnutls28-dev libssl-dev
       libyaml-dev uthash-dev)
test=(libcmocka-dev python3 python3-pytest python3-yaml python3-venv ca-certificates valgrind curl openssl procps git)
check=(clang clang-format clang-tidy cppcheck)

case $set_name in
  build) packages=("${build[@]}") ;;
  test) packages=("${build[@]}" "${test[@]}") ;;
  check) packages=("${build[@]}" "${check[@]}") ;;
  *) echo "deps: unknown set '$set_name': use build, test or check" >&2; exit 2 ;;
esac

say () { printf 'deps: %s\n' "$*"; }
fail () { printf 'deps: %s\n' "$@" >&2; exit 1; }

# Prints those of its arguments that dpkg does not have installed, one a line.
missing_of ()
{
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' || true)
  comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$installed")
}

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null \
  || fail "this machine has no apt-get; install the equivalents of: ${packages[*]}" \
          "and, for the tests, Go 1.21 or newer, then go on without 'make deps'"

mapfile -t missing < <(missing_of "${packages[@]}")
need_go=no
if [ "$set_name" = test ] && ! go=$("$find_go"); then
  need_go=yes
fi

if [ ${#missing[@]} -eq 0 ] && [ $need_go = no ]; then
  say "all ${#packages[@]} packages of '$set_name' are present${go:+, Go is $go}; nothing to do"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null \
    || fail "not root and no sudo; missing:${missing[*]/#/ }$([ $need_go = no ] || echo ' and Go 1.21 or newer')" \
            "remedy: run 'scripts/deps.sh $set_name' as root"
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# apt_get ARGS: apt-get without questions, at most three tries (mirrors hiccup); its output goes to the log.
apt_get ()
{
  local try
  for try in 1 2 3; do
    if "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 apt-get -q -y \
         -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1; then
      return 0
    fi
    [ "$try" = 3 ] || sleep $((try * 5))
  done
  return 1
}

# A source that fails but is not Debian's own must not stop us: what counts is whether the install works afterwards.
update_lists ()
{
  apt_get update || { say "warning: apt-get update did not fully succeed:"; tail -n 3 "$log"; }
}

install_packages ()
{
  if ! apt_get install --no-install-recommends "$@"; then
    tail -n 15 "$log" >&2
    fail "apt-get install failed, the reason is above (packages: $*)" \
         "remedy: check the network and /etc/apt, then run 'scripts/deps.sh $set_name' again"
  fi
}

# Prints the newest golang-1.xx-go (1.21 or newer) that apt knows, or nothing.
newest_go_package ()
{
  apt-cache pkgnames golang-1. | grep -E '^golang-1\.(2[1-9]|[3-9][0-9])-go$' | sort -V | tail -n 1 || true
}

# Adds the backports suite of the Debian mirror this machine already uses, with the key it already trusts for it.
add_backports ()
{
  local codename entry site source key trusted keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  entry=$(apt-get indextargets --format '$(SITE)|$(SOURCESENTRY)' 'Created-By: Packages' 'Origin: Debian' \
            "Codename: $codename" 'Component: main' 2>/dev/null | head -n 1)
  [ -n "$codename" ] && [ -n "$entry" ] \
    || fail "no Go 1.21 or newer here, and apt's sources name no Debian mirror to take its backports from" \
            "remedy: install Go 1.21 or newer under /usr/local/go, or put one in PATH"
  site=${entry%%|*}
  source=${entry#*|}
  source=${source%:*}

  key=$(grep -ohiE 'signed-by *[:=] *[^] ]+' "$source" 2>/dev/null | head -n 1 | sed -E 's/^[^:=]*[:=] *//' || true)
  [ -f "$key" ] || key=$keyring
  trusted=$(grep -qiE 'trusted *[:=] *yes' "$source" 2>/dev/null && echo yes || true)

  say "adding $codename-backports of $site to apt's sources, for Go"
  {
    printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\n' "$site" "$codename"
    [ ! -f "$key" ] || printf 'Signed-By: %s\n' "$key"
    [ -z "$trusted" ] || printf 'Trusted: yes\n'
  } | "${as_root[@]}" tee "/etc/apt/sources.list.d/$codename-backports.sources" >/dev/null
}

wanted=("${missing[@]}")
[ $need_go = no ] || wanted+=("Go")
say "installing ${wanted[*]} with ${as_root[*]:+sudo }apt-get (a minute or two)"
update_lists
[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"

if [ $need_go = yes ]; then
  package=$(newest_go_package)
  if [ -z "$package" ]; then
    add_backports
    update_lists
    package=$(newest_go_package)
  fi
  [ -n "$package" ] || fail "Debian's archive and backports have no golang-1.21-go or newer" \
                            "remedy: install Go 1.21 or newer under /usr/local/go, or put one in PATH"
  install_packages "$package"
  go=$("$find_go") || fail "$package is installed but no usable Go was found" "remedy: put a Go 1.21 or newer in PATH"
  say "Go is $go ($package)"
fi

mapfile -t missing < <(missing_of "${packages[@]}")
[ ${#missing[@]} -eq 0 ] || fail "still missing after the installation: ${missing[*]}"
say "done"
