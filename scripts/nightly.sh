#!/usr/bin/env bash
# Runs the tests that are too long for every change. Each part can be run alone
# and takes at most 45 minutes on 2 cores. Without a part, all run in turn; a
# failure doesn't stop the others. docs/testing.md describes the parts.
#
#   scripts/nightly.sh [kills|servers|race|fuzz|long]...
#
# A randomised test that fails prints its seed and how to reproduce the run.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}

# kills: tests that kill processes or cut connections. servers: tests of servers
# that the suite doesn't otherwise use. The remaining tests are in part `long`.
kills='Kill|CutOff|BrokenOff|SimulatedMonth'
servers='Hostile'
flags='-vet=off -ldflags=-s -p 2 -parallel 4' # the Makefile has the reasons

beside() { # runs tests on the shared servers
  "$GO" run ./internal/testservers "$GO" test -count 1 -timeout 45m $flags "$@"
}

# newer runs on newer servers: the engine suite with its traps, the tests of
# keeping, adoption and loading, and of a table's life cycle by the command line,
# including the tests of servers with hostile defaults; queries whole and split.
newer() (
  postgres=18
  compgen -G "${XDG_CACHE_HOME:-$HOME/.cache}/rowmill/postgres-18.*" >/dev/null || postgres=17
  export ROWMILL_TEST_NIGHTLY=1 ROWMILL_TEST_KINDS=mysql,mariadb,postgres
  export ROWMILL_TEST_VERSIONS=mysql=9.7,mariadb=11.8,postgres=$postgres
  export ROWMILL_TEST_REQUIRE=mysql-9.7,mariadb-11.8,rocksdb-11.8,postgres-$postgres
  "$GO" test -count 1 -run 'TestVersions$' ./internal/sandbox || return
  local failed=0
  beside ./internal/engine/mysql ./internal/engine/postgres || failed=1
  beside -skip "$kills|Memory" ./internal/maintain/... ./internal/ingest ./internal/ingest/format ./internal/ingest/lane ./internal/state || failed=1
  ROWMILL_TEST_NIGHTLY= beside -run 'Differential' ./internal/query || failed=1
  beside -run 'Grants|Privileges|Restore$|Trap|'"$servers" -skip "$kills" ./cmd/rowmill || failed=1
  return $failed
)

# pure runs the SQLite part of the suite in the build without cgo, which has
# another SQLite driver.
pure() (
  export CGO_ENABLED=0 ROWMILL_TEST_KINDS=sqlite
  "$GO" vet ./... || return
  "$GO" test -count 1 -timeout 45m $flags ./...
)

part() {
  case $1 in
    kills) ROWMILL_TEST_NIGHTLY=1 beside -race -run "$kills" ./... ;;
    servers)
      local failed=0
      scripts/install.sh mysql-new mariadb-new postgres-new || return
      ROWMILL_TEST_NIGHTLY=1 beside -run "$servers" ./... || failed=1
      newer || failed=1
      return $failed
      ;;
    race) beside -race ./... ;;
    fuzz) scripts/fuzz.sh 20s ;;
    long)
      local failed=0
      ROWMILL_TEST_NIGHTLY=1 beside -skip "$kills|$servers" ./... || failed=1
      pure || failed=1
      scripts/tutorial-flights.sh || failed=1
      scripts/release-check.sh || failed=1
      return $failed
      ;;
    *)
      echo "nightly: no part '$1'; the parts: kills servers race fuzz long" >&2
      return 2
      ;;
  esac
}

scripts/install.sh gcc mariadb rocksdb spider galera postgres mysql chromium prometheus systemd backup || exit 1
[ $# -gt 0 ] || set -- kills servers race fuzz long
failed=()
for name in "$@"; do
  begin=$SECONDS
  printf '=== nightly %s: begins\n' "$name"
  if part "$name"; then
    printf '=== nightly %s: passed in %d s\n' "$name" $((SECONDS - begin))
  else
    printf '=== nightly %s: FAILED after %d s\n' "$name" $((SECONDS - begin))
    failed+=("$name")
  fi
done
[ ${#failed[@]} = 0 ] || { printf '=== nightly: failed: %s\n' "${failed[*]}"; exit 1; }
