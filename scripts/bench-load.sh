#!/usr/bin/env bash
# Compares rowmill load with the servers' own loaders, on private servers with 64 MB of memory: rows of the preset
# classic as CSV, three secondary indexes, periods of an eighth of the rows. For each server, in turn, it measures
#
#   publish   rowmill load into an empty rolling table
#   ceiling   two clients, the server's own loader, an empty table for each period, indexes built sorted
#   plain     the server's own loader into one indexed table that has three quarters of the rows already
#   live      rowmill load --lane live of one period's rows into its open period
#   loader    the server's own loader of the same rows into the same period of another table
#
# and prints rows/s, ratios, and the peak memory of rowmill.
#
#   scripts/bench-load.sh
#
# Variables: SERVERS ("mariadb mysql postgres"); ROWS (4000000), a multiple of 8.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

servers=${SERVERS:-mariadb mysql postgres}
rows=${ROWS:-4000000}
period=$((rows / 8))
more=$((rows / 40)) # rows of plain
# shellcheck disable=SC2086
scripts/install.sh gcc $servers
[ -x ./rowmill ] || make --no-print-directory build
bin=$PWD/rowmill
root=$PWD/.rowmill/bench-load-$$
mkdir -p "$root"
cd "$root"
cleanup() {
  "$bin" sandbox stop --all --yes >/dev/null 2>&1 || true
  rm -rf "$root"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

columns="transactionid,dateandtime,cashregisterid,customerid,productid,price"
echo "$rows rows; periods of $period rows" >&2
awk -v rows="$rows" -v period="$period" -v columns="$columns" 'BEGIN {
  srand(7)
  print columns > "all.csv"
  for (i = 0; i < rows; i++) {
    s = i % 86400
    row = sprintf("%d,2026-01-%02d %02d:%02d:%02d,%d,%d,%d,%.2f", i, 1 + int(i / 86400) % 28, s / 3600, s / 60 % 60, s % 60, rand() * 1000, rand() * 100000, rand() * 10000, rand() * 500)
    print row > "all.csv"
    print row > ("part" int(i / period) ".csv")
  }
}'
head -n "$more" part6.csv >more.csv
cat part[0-5].csv >most.csv

body='transactionid INT NOT NULL, dateandtime DATETIME NOT NULL, cashregisterid INT NOT NULL, customerid INT NOT NULL, productid INT NOT NULL, price FLOAT NOT NULL'
marketsegment='(price, customerid)' registersegment='(cashregisterid, price, customerid)' pdc='(price, dateandtime, customerid)'
keys="PRIMARY KEY (transactionid), KEY marketsegment $marketsegment, KEY registersegment $registersegment, KEY pdc $pdc"

my() { mariadb --no-defaults --local-infile=1 -u root -S "$socket" "$@"; }
pg() { psql -X -q -v ON_ERROR_STOP=1 -h "$(dirname "$socket")" -p "${socket##*.}" -U root "$@"; }

# bulk_SERVER fills new tables bulk_NAME from the files NAME.csv, with indexes, on the sorted path.
bulk_mariadb() {
  for n in "$@"; do
    printf 'CREATE TABLE bulk_%s (%s, %s) ENGINE=InnoDB; SET unique_checks=0, foreign_key_checks=0; %s\n' "$n" "$body" "$keys" "$(load_data "$n.csv" "bulk_$n")"
  done | my own
}
bulk_mysql() {
  for n in "$@"; do
    printf 'CREATE TABLE bulk_%s (%s, PRIMARY KEY (transactionid)); SET unique_checks=0, foreign_key_checks=0; %s ALTER TABLE bulk_%s ADD KEY marketsegment %s, ADD KEY registersegment %s, ADD KEY pdc %s;\n' \
      "$n" "$body" "$(load_data "$n.csv" "bulk_$n")" "$n" "$marketsegment" "$registersegment" "$pdc"
  done | my own
}
bulk_postgres() {
  for n in "$@"; do
    printf 'BEGIN;\nCREATE TABLE bulk_%s (%s);\n\\copy bulk_%s FROM %s WITH (FORMAT csv, FREEZE)\nALTER TABLE bulk_%s ADD PRIMARY KEY (transactionid);\n' "$n" "${body/DATETIME/TIMESTAMP}" "$n" "'$n.csv'" "$n"
    for ix in "$marketsegment" "$registersegment" "$pdc"; do printf 'CREATE INDEX ON bulk_%s %s;\n' "$n" "$ix"; done
    printf 'COMMIT;\n'
  done | pg own
}
load_data() { printf "LOAD DATA LOCAL INFILE '%s' INTO TABLE %s FIELDS TERMINATED BY ',';" "$1" "$2"; }
# plain loads a file into a table with rows and indexes.
plain_mariadb() { load_data "$1" "$2" | my "$3"; }
plain_mysql() { plain_mariadb "$@"; }
plain_postgres() { printf '\\copy %s FROM %s WITH (FORMAT csv)\n' "$2" "'$1'" | pg "$3"; }
database_mariadb() { my -e "CREATE DATABASE $1; SET GLOBAL local_infile = 1"; }
database_mysql() { database_mariadb "$1"; }
database_postgres() { pg rowmill -c "CREATE DATABASE $1"; }

seconds() { # runs a command and prints its wall-clock seconds
  local from
  from=$(date +%s.%N)
  "$@" >out.txt 2>&1 || { cat out.txt >&2; return 1; }
  echo "$from $(date +%s.%N)" | awk '{ print $2 - $1 }'
}
both() { # runs the sorted path with two clients
  "bulk_$server" part0 part2 part4 part6 & local first=$!
  "bulk_$server" part1 part3 part5 part7
  wait "$first"
}
declaration() { # applies the table in a database
  local types="$body, $keys)"
  if [ "$server" = postgres ]; then
    types="${body/DATETIME/TIMESTAMP}, PRIMARY KEY (transactionid));
CREATE INDEX ON purchases $marketsegment;
CREATE INDEX ON purchases $registersegment;
CREATE INDEX ON purchases $pdc"
  fi
  printf "[table]\nname = 'purchases'\ntarget = '%s'\ncreate = '''\nCREATE TABLE purchases (%s'''\ntime = 'transactionid'\n\n[period]\nrows = %s\n" \
    "${target/\/rowmill\?/\/$1?}" "$types" "$period" >"$1.toml"
  "$bin" apply "$1.toml" --yes >/dev/null 2>apply.txt || { cat apply.txt >&2; return 1; }
}

printf '%-9s %10s %10s %8s %10s %8s %10s %10s %8s %12s %12s\n' "rows/s" publish ceiling ratio plain ratio live loader ratio "publish, MB" "live, MB"
for server in $servers; do
  "$bin" sandbox start "load-$$-$server" --target "sandbox:$server?memory=64MB" --json >server.json
  socket=$(sed -n 's/^ *"socket": "\(.*\)",*$/\1/p' server.json | head -1)
  target=$(sed -n 's/^ *"target": "\(.*\)",*$/\1/p' server.json | head -1 | sed 's/\\u0026/\&/g')
  for db in own published live; do "database_$server" "$db"; done
  declaration published
  declaration live
  peak() { awk '/Maximum resident/ { printf "%.0f", $NF * 1024 / 1e6 }' "$1"; }
  ceiling=$(seconds both)
  publish=$(seconds /usr/bin/time -v -o publish.time "$bin" load published.toml all.csv)
  { echo "$columns"; cat part0.csv; } >first.csv
  live=$(seconds /usr/bin/time -v -o live.time "$bin" load live.toml first.csv --lane live)
  loader=$(seconds "plain_$server" part1.csv purchases live)
  "bulk_$server" most
  plain=$(seconds "plain_$server" more.csv bulk_most own)
  awk -v s="$server" -v rows="$rows" -v period="$period" -v more="$more" -v a="$publish" -v b="$ceiling" -v c="$plain" -v d="$live" -v e="$loader" -v p="$(peak publish.time)" -v q="$(peak live.time)" 'BEGIN {
    printf "%-9s %10.0f %10.0f %8.2f %10.0f %8.1f %10.0f %10.0f %8.2f %12d %12d\n", s, rows / a, rows / b, b / a, more / c, rows / a / (more / c), period / d, period / e, e / d, p, q }'
  "$bin" sandbox stop "load-$$-$server" --yes >/dev/null
done
