#!/usr/bin/env bash
# Prints the figures of docs/scaling-out.md: one table on one private MariaDB server, and on three behind
# a Spider head, all on this machine: loading, queries through Spider, in pieces, and directly, a node that is killed.
#
#   scripts/bench-shards.sh [ROWS]      (1000000)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rows=${1:-1000000}
scripts/install.sh gcc mariadb spider
go build -o rowmill ./cmd/rowmill
rowmill=$PWD/rowmill
work=$(mktemp -d "${TMPDIR:-/tmp}/shards.XXXXXX")
cd "$work"
finish() {
  "$rowmill" sandbox stop --all --yes >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT
settings='memory=256MB&redo=128MB&durability=relaxed'
"$rowmill" sandbox start one --target "sandbox:mariadb?$settings" >/dev/null 2>&1
"$rowmill" sandbox start "mariadb?spider=3&$settings" >/dev/null 2>&1
socket() { echo "$work/.rowmill/named-$1/s"; }
target() { echo "mariadb://root@localhost/rowmill?socket=$(socket "$1")"; }
sql() { mariadb --no-defaults -uroot -S "$(socket "$1")" rowmill -N -e "$2"; }
declaration() {
  cat <<TOML
[table]
name = "readings"
target = "$(target "$1")"
create = '''
CREATE TABLE readings (
  sensor INT NOT NULL, ts DATETIME NOT NULL, value INT NOT NULL, amount DECIMAL(12,2) NOT NULL,
  PRIMARY KEY (sensor, ts), KEY (ts), KEY (amount)) DEFAULT CHARSET=utf8mb4'''
time = "ts"
[period]
every = "1d"
from = "$(date -u -d '-11 days' +%F)"
TOML
}
declaration one >one.toml
{
  declaration mariadb
  printf '[shards]\nby = "sensor"\nnodes = { n1 = "%s", n2 = "%s", n3 = "%s" }\n' "$(target mariadb-1)" "$(target mariadb-2)" "$(target mariadb-3)"
} >three.toml
# 1,000 sensors over the ten days that have passed.
awk -v rows="$rows" -v from="$(date -u -d "$(date -u -d '-11 days' +%F)" +%s)" 'BEGIN {
  print "sensor,ts,value,amount"
  each = int(864000 / (rows / 1000))
  for (i = 0; i < rows; i++) printf "%d,%s,%d,%d.%02d\n", i % 1000, strftime("%Y-%m-%d %H:%M:%S", from + int(i / 1000) * each, 1), i % 977, i * 7919 % 100000, i % 100
}' >rows.csv
seconds() { # of a command, in ms
  local begin
  begin=$(date +%s%N)
  "$@" >out.txt 2>&1 || echo failed >>out.txt
  echo $((($(date +%s%N) - begin) / 1000000))
}
best() { # of three runs
  local least=999999999 n
  for _ in 1 2 3; do
    n=$(seconds "$@")
    [ "$n" -ge "$least" ] || least=$n
  done
  echo "$least"
}
for d in one three; do
  "$rowmill" apply "$d.toml" --yes >/dev/null 2>&1
  printf 'load into %-6s %6s ms\n' "$d" "$(seconds "$rowmill" load "$d.toml" rows.csv)"
done
printf 'rows on each node: %s %s %s\n' "$(sql mariadb-1 'SELECT COUNT(*) FROM readings')" "$(sql mariadb-2 'SELECT COUNT(*) FROM readings')" "$(sql mariadb-3 'SELECT COUNT(*) FROM readings')"
printf '%-78s %8s %8s %8s %8s %8s %8s\n' 'ms, best of 3' one 'one, cut' spider parallel 'spi. cut' direct
while read -r q; do
  a=$(best sql one "$q")
  b=$(best "$rowmill" query --target "$(target one)" "$q")
  c=$(best sql mariadb "$q")
  d=$(best sql mariadb "SET spider_bgs_mode = 1; $q")
  e=$(best "$rowmill" query --target "$(target mariadb)" "$q")
  f=$(best "$rowmill" query --shards three.toml "$q")
  printf '%-78s %8s %8s %8s %8s %8s %8s\n' "${q:0:78}" "$a" "$b" "$c" "$d" "$e" "$f"
done <<'SQL'
SELECT COUNT(*), SUM(amount), MAX(value) FROM readings
SELECT sensor, COUNT(*), AVG(amount) FROM readings GROUP BY sensor ORDER BY sensor
SELECT DATE(ts), COUNT(DISTINCT sensor), SUM(amount) FROM readings GROUP BY DATE(ts)
SELECT value % 100, COUNT(*), SUM(amount) FROM readings GROUP BY value % 100
SELECT COUNT(*), SUM(amount) FROM readings WHERE sensor = 77
SELECT * FROM readings ORDER BY amount DESC, sensor, ts LIMIT 10
SQL
q='SELECT COUNT(*), SUM(amount) FROM readings'
before=$(sql mariadb "$q")
kill -9 "$(cat .rowmill/named-mariadb-2/pid)"
printf 'node 2 killed: Spider %s ms: ' "$(seconds sql mariadb "$q")"
head -1 out.txt
printf 'node 2 killed: direct %s ms: ' "$(seconds "$rowmill" query --shards three.toml "$q")"
grep -m1 -o 'node n2.*' out.txt || cat out.txt
awk -F, 'NR == 1 { print } NR > 1 && NR <= 5001 { print $1 + 1000 "," $2 "," $3 "," $4 }' rows.csv >more.csv
printf 'load while node 2 is away, --retry 0s: %s ms: ' "$(seconds "$rowmill" load three.toml more.csv --retry 0s)"
grep -m1 '^rowmill: ' out.txt
printf 'node 2 started: %s ms\n' "$(seconds "$rowmill" sandbox start mariadb-2)"
printf 'query: %s ms; the same answer: %s\n' "$(seconds sql mariadb "SELECT COUNT(*), SUM(amount) FROM readings WHERE sensor < 1000")" "$([ "$(cat out.txt)" = "$before" ] && echo yes || echo no)"
printf 'the same load again: %s ms\n' "$(seconds "$rowmill" load three.toml more.csv)"
printf 'rows of the second load: %s\n' "$(sql mariadb 'SELECT COUNT(*) FROM readings WHERE sensor >= 1000')"
