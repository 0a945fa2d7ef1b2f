#!/bin/bash
# Prints the path of a Go command that can build the tools of go.mod; exits 1 when the machine has none.
#
# Any Go from 1.21 on will do: from that version on it fetches the toolchain that go.mod names (GOTOOLCHAIN=auto).
# Looked for in PATH, where the upstream tarball goes, and where Debian's golang-1.xx-go packages go.
set -euo pipefail

path_go=$(command -v go || true)
mapfile -t candidates < <(
  printf '%s\n' "$path_go" /usr/local/go/bin/go
  printf '%s\n' /usr/lib/go-*/bin/go | sort -rV
)

for go in "${candidates[@]}"; do
  [ -x "$go" ] || continue
  # The version of this very Go, not of the one that a go.mod nearby would make it fetch.
  version=$(cd / && GOTOOLCHAIN=local GOWORK=off GOFLAGS='' "$go" env GOVERSION 2>/dev/null) || continue
  if [[ $version =~ ^go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge 21 ]; then
    printf '%s\n' "$go"
    exit 0
  fi
done
exit 1
