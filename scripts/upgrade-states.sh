#!/usr/bin/env bash
# Makes cmd/rowmill/testdata/upgrade again: databases in which an older version has left changes
# half-done, for TestUpgraded. The older version is a commit, whose test binary is built for it.
# Needs sqlite3, mariadb-dump and pg_dump.
#
#   scripts/upgrade-states.sh [COMMIT]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
commit=${1:-4bc9f70a}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source"
git archive "$commit" | tar -x -C "$work/source"
(cd "$work/source" && CGO_CFLAGS=-O1 go test -c -vet=off -o "$work/older.test" ./cmd/rowmill)
ROWMILL_TEST_NIGHTLY=1 ROWMILL_TEST_OLDER=$work/older.test CGO_CFLAGS=-O1 go test -count 1 -vet=off -run 'TestUpgraded$' ./cmd/rowmill -update
