#!/usr/bin/env bash
# Compares rowmill load with the servers' own loaders, on private servers with 64 MB of memory, and prints one table
# for docs/loading.md: rows/s of both sides, their ratio, and the CPU seconds of client and server. The cases:
#
#   wide     hours of weather: 522,300 rows of 15 columns, one index; the server's loader fills an identical rolling table
#   narrow   1,500,000 rows of the preset classic, three indexes besides the primary key, 8 periods; the other side is two
#            clients with the server's own loader, an empty table for each period, indexes built sorted where the server can
#   large    the same with ROWS rows
#   live     one period of large into its open period, --lane live; the server's loader fills the same period of another table
#   plain    large; the server's loader adds a fortieth to one indexed table that has three quarters of the rows already
#
# The two sides of a case take turns, ROUNDS times (plain and live once); of each, the run with the median time is printed.
#
#   scripts/bench-load.sh
#
# Variables: SERVERS ("mariadb mysql postgres"); CASES ("wide narrow large live plain"); ROUNDS (3); ROWS (4000000), a multiple of 8.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

servers=${SERVERS:-mariadb mysql postgres}
cases=${CASES:-wide narrow large live plain}
rounds=${ROUNDS:-3}
large=${ROWS:-4000000}
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

# classic writes all.csv, with a header, and part0.csv to part7.csv, without one, to a folder.
classic() { # FOLDER ROWS
  mkdir -p "$1"
  awk -v dir="$1/" -v rows="$2" 'BEGIN {
    srand(7)
    print "transactionid,dateandtime,cashregisterid,customerid,productid,price" > (dir "all.csv")
    for (i = 0; i < rows; i++) {
      s = i % 86400
      row = sprintf("%d,2026-01-%02d %02d:%02d:%02d,%d,%d,%d,%.2f", i, 1 + int(i / 86400) % 28, s / 3600, s / 60 % 60, s % 60, rand() * 1000, rand() * 100000, rand() * 10000, rand() * 500)
      print row > (dir "all.csv")
      print row > (dir "part" int(i / (rows / 8)) ".csv")
    }
  }'
}
# weather writes all.csv: 60 stations, each with 8705 hours, and fields that are empty for NULL.
weather() {
  mkdir -p "$1"
  awk 'BEGIN {
    srand(11)
    print "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib,time_hour"
    split("31 28 31 30 31 30 31 31 30 31 30 31", days, " ")
    for (s = 0; s < 60; s++)
      for (m = n = 0; m++ < 12;)
        for (d = 1; d <= days[m]; d++)
          for (h = 0; h < 24 && n++ < 8705; h++) {
            temp = 30 + rand() * 50; speed = int(rand() * 30) * 1.15078
            printf "K%03d,2013,%d,%d,%d,%.2f,%.2f,%.2f,%s,%.5f,%s,%s,%s,%s,2013-%02d-%02d %02d:00:00\n", s, m, d, h, temp, temp - rand() * 15, 40 + rand() * 60,
              rand() < 0.02 ? "" : int(rand() * 36) * 10, speed, rand() < 0.78 ? "" : sprintf("%.5f", speed * 1.3), rand() < 0.93 ? "0" : sprintf("%.2f", rand() * 0.5),
              rand() < 0.1 ? "" : sprintf("%.1f", 1000 + rand() * 40), rand() < 0.8 ? "10" : sprintf("%.2f", rand() * 9), m, d, h
          }
  }' >"$1/all.csv"
}

body='transactionid INT NOT NULL, dateandtime DATETIME NOT NULL, cashregisterid INT NOT NULL, customerid INT NOT NULL, productid INT NOT NULL, price FLOAT NOT NULL'
marketsegment='(price, customerid)' registersegment='(cashregisterid, price, customerid)' pdc='(price, dateandtime, customerid)'
keys="PRIMARY KEY (transactionid), KEY marketsegment $marketsegment, KEY registersegment $registersegment, KEY pdc $pdc"
hours='origin VARCHAR(4) NOT NULL, year SMALLINT NOT NULL, month SMALLINT NOT NULL, day SMALLINT NOT NULL, hour SMALLINT NOT NULL, temp DOUBLE PRECISION, dewp DOUBLE PRECISION,
  humid DOUBLE PRECISION, wind_dir INT, wind_speed DOUBLE PRECISION, wind_gust DOUBLE PRECISION, precip DOUBLE PRECISION, pressure DECIMAL(6,1), visib DOUBLE PRECISION,
  time_hour DATETIME NOT NULL, PRIMARY KEY (origin, time_hour)'

my() { mariadb --no-defaults --local-infile=1 -u root -S "$socket" "$@"; }
pg() { psql -X -q -v ON_ERROR_STOP=1 -h "$(dirname "$socket")" -p "${socket##*.}" -U root "$@"; }

# bulk_SERVER fills new tables bulk_NAME of a folder's files NAME.csv, with indexes, on the sorted path.
bulk_mariadb() { # FOLDER NAME...
  local dir=$1 n
  for n in "${@:2}"; do
    printf 'CREATE TABLE bulk_%s (%s, %s) ENGINE=InnoDB; SET unique_checks=0, foreign_key_checks=0; %s\n' "$n" "$body" "$keys" "$(load_data "$dir/$n.csv" "bulk_$n")"
  done | my own
}
bulk_mysql() {
  local dir=$1 n
  for n in "${@:2}"; do
    printf 'CREATE TABLE bulk_%s (%s, PRIMARY KEY (transactionid)); SET unique_checks=0, foreign_key_checks=0; %s ALTER TABLE bulk_%s ADD KEY marketsegment %s, ADD KEY registersegment %s, ADD KEY pdc %s;\n' \
      "$n" "$body" "$(load_data "$dir/$n.csv" "bulk_$n")" "$n" "$marketsegment" "$registersegment" "$pdc"
  done | my own
}
bulk_postgres() {
  local dir=$1 n ix
  for n in "${@:2}"; do
    printf 'BEGIN;\nCREATE TABLE bulk_%s (%s);\n\\copy bulk_%s FROM %s WITH (FORMAT csv, FREEZE)\nALTER TABLE bulk_%s ADD PRIMARY KEY (transactionid);\n' "$n" "${body/DATETIME/TIMESTAMP}" "$n" "'$dir/$n.csv'" "$n"
    for ix in "$marketsegment" "$registersegment" "$pdc"; do printf 'CREATE INDEX ON bulk_%s %s;\n' "$n" "$ix"; done
    printf 'COMMIT;\n'
  done | pg own
}
load_data() { printf "LOAD DATA LOCAL INFILE '%s' INTO TABLE %s FIELDS TERMINATED BY ',';" "$1" "$2"; }
both() { # runs the sorted path with two clients
  "bulk_$server" "$1" part0 part2 part4 part6 & local first=$!
  "bulk_$server" "$1" part1 part3 part5 part7
  wait "$first"
}
# plain loads a file without a header into a table of a database that has rows, or indexes.
plain_mariadb() { load_data "$1" "$2" | my "$3"; } # FILE TABLE DATABASE
plain_mysql() { plain_mariadb "$@"; }
plain_postgres() { printf '\\copy %s FROM %s WITH (FORMAT csv)\n' "$2" "'$1'" | pg "$3"; }
# hours_SERVER loads the weather with the server's loader. MySQL's reads no empty field as NULL.
hours_mariadb() {
  local c list=origin,year,month,day,hour set=
  for c in temp dewp humid wind_dir wind_speed wind_gust precip pressure visib; do list+=",@$c" set+="${set:+, }$c = NULLIF(@$c, '')"; done
  printf "LOAD DATA LOCAL INFILE '%s' INTO TABLE weather FIELDS TERMINATED BY ',' IGNORE 1 LINES (%s,time_hour) SET %s" wide/all.csv "$list" "$set" | my other
}
hours_mysql() { hours_mariadb; }
hours_postgres() { printf '\\copy weather FROM wide/all.csv WITH (FORMAT csv, HEADER)\n' | pg other; }
database_mariadb() { my -e "DROP DATABASE IF EXISTS $1; CREATE DATABASE $1; SET GLOBAL local_infile = 1"; }
database_mysql() { database_mariadb "$1"; }
database_postgres() { pg rowmill -c "SET client_min_messages = error" -c "DROP DATABASE IF EXISTS $1" -c "CREATE DATABASE $1"; }

# declaration applies a table in a new database.
declaration() { # DATABASE wide|ROWS-OF-A-PERIOD
  local name=purchases by=transactionid period="rows = $2" create="CREATE TABLE purchases ($body, $keys)"
  if [ "$2" = wide ]; then
    name=weather by=time_hour period="every = '28d'
from = '2012-12-20'" create="CREATE TABLE weather ($hours)"
  elif [ "$server" = postgres ]; then
    create="CREATE TABLE purchases ($body, PRIMARY KEY (transactionid));
CREATE INDEX ON purchases $marketsegment;
CREATE INDEX ON purchases $registersegment;
CREATE INDEX ON purchases $pdc"
  fi
  [ "$server" != postgres ] || create=${create//DATETIME/TIMESTAMP}
  "database_$server" "$1"
  printf "[table]\nname = '%s'\ntarget = '%s'\ncreate = '''\n%s'''\ntime = '%s'\n\n[period]\n%s\n" "$name" "${target/\/rowmill\?/\/$1?}" "$create" "$by" "$period" >"$1.toml"
  "$bin" apply "$1.toml" --yes >/dev/null 2>apply.txt || { cat apply.txt >&2; return 1; }
}

# ticks prints the CPU time that the server has used, in hundredths of a second: with what processes
# have used that have ended, and those that PostgreSQL has for its connections.
ticks() {
  sleep 0.5 # for processes to end
  local list
  mapfile -t list < <(pgrep -P "$process" || true)
  { awk '{ print $14 + $15 + $16 + $17 }' "/proc/$process/stat"
    for p in "${list[@]}"; do awk '{ print $14 + $15 }' "/proc/$p/stat" 2>/dev/null || true; done
  } | awk '{ n += $1 } END { print n }'
}
# measure runs one side of a case, and notes rows, seconds, CPU seconds of client and server, and the client's memory.
measure() { # SIDE ROWS COMMAND...
  local side=$1 rows=$2 before
  shift 2
  before=$(ticks)
  if [ "$1" = load ]; then
    /usr/bin/time -f '%e %U %S %M' -o time.txt "$bin" "$@" >out.txt 2>&1 || { cat out.txt >&2; return 1; }
  else
    { TIMEFORMAT='%R %U %S 0'; time "$@" >out.txt 2>&1; } 2>time.txt || { cat out.txt >&2; return 1; }
  fi
  echo "$side $rows $(tail -n 1 time.txt) $(($(ticks) - before))" >>runs.txt
}
# result prints the median of each side.
result() { # CASE
  sort -k1,1 -k3,3n runs.txt | awk -v server="$server" -v name="$1" '
    { n[$1]++; line[$1, n[$1]] = $0 }
    function side(s, f) { split(line[s, int((n[s] + 1) / 2)], f); return n[s] }
    END {
      a = side("load", l); b = side("own", o)
      printf "| %s | %s | %d | %.0f | %.0f | %.2f | %.1f + %.1f | %.1f + %.1f | %d MB |\n", server, name, l[2], l[2] / l[3], o[2] / o[3], (l[2] / l[3]) / (o[2] / o[3]),
        l[4] + l[5], l[7] / 100, o[4] + o[5], o[7] / 100, l[6] * 1024 / 1e6
    }'
  rm runs.txt
}

wide() {
  [ -d wide ] || weather wide
  for _ in $(seq "$rounds"); do
    declaration loaded wide
    measure load 522300 load loaded.toml wide/all.csv
    declaration other wide
    measure own 522300 "hours_$server"
  done
  result wide
}
published() { # CASE ROWS
  [ -d "$1" ] || classic "$1" "$2"
  for _ in $(seq "$rounds"); do
    "database_$server" own
    measure own "$2" both "$1"
    "database_$server" own
    declaration loaded "$(($2 / 8))"
    measure load "$2" load loaded.toml "$1/all.csv"
  done
  result "$1"
}
live() {
  [ -d large ] || classic large "$large"
  { head -n 1 large/all.csv; cat large/part0.csv; } >large/first.csv
  declaration loaded "$((large / 8))"
  measure load "$((large / 8))" load loaded.toml large/first.csv --lane live
  measure own "$((large / 8))" "plain_$server" large/part1.csv purchases loaded
  result live
}
plain() { # load is the publication of large
  [ -d large ] || classic large "$large"
  head -n "$((large / 40))" large/part6.csv >large/more.csv
  cat large/part[0-5].csv >large/most.csv
  "database_$server" own
  "bulk_$server" large most
  measure own "$((large / 40))" "plain_$server" large/more.csv bulk_most own
  "database_$server" own
  declaration loaded "$((large / 8))"
  measure load "$large" load loaded.toml large/all.csv
  result plain
}

echo '| server | case | rows | load, rows/s | own loader, rows/s | ratio | CPU s of load: client + server | CPU s of own: client + server | memory of load |'
echo '|---|---|---|---|---|---|---|---|---|'
for server in $servers; do
  "$bin" sandbox start "load-$$-$server" --target "sandbox:$server?memory=64MB" --json >server.json
  socket=$(sed -n 's/^ *"socket": "\(.*\)",*$/\1/p' server.json | head -1)
  target=$(sed -n 's/^ *"target": "\(.*\)",*$/\1/p' server.json | head -1 | sed 's/\\u0026/\&/g')
  if [ "$server" = postgres ]; then
    process=$(head -n 1 "$(pg rowmill -At -c 'SHOW data_directory')/postmaster.pid")
  else
    process=$(cat "$(my -N -e 'SELECT @@pid_file')")
  fi
  for c in $cases; do
    case $c in
    narrow) published narrow 1500000 ;;
    large) published large "$large" ;;
    *) "$c" ;;
    esac
  done
  "$bin" sandbox stop "load-$$-$server" --yes >/dev/null
done
