#!/usr/bin/env bash
# Compares rowmill's generator with sysbench's under the same load: oltp_insert's
# statement and table, one private MariaDB with 2 GB of memory, the same number
# of connections, runs interleaved. For each number of connections, prints both
# rates, both client CPU times per row, and their ratios (medians over rounds).
#
#   scripts/bench-sysbench.sh
#
# Variables: ROUNDS (5), the number of rounds; SECONDS_EACH (8), the length of a
# run; WRITERS ("1 5 16"), the numbers of connections; DURABILITY (full), the
# server's durability.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-8}
writers=${WRITERS:-1 5 16}
durability=${DURABILITY:-full}
scripts/install.sh gcc mariadb sysbench
[ -x ./rowmill ] || make --no-print-directory build

name=sysbench-$$
work=$(mktemp -d)
cleanup() {
  ./rowmill sandbox stop "$name" --yes >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
echo "sysbench: $(sysbench --version); rounds: $rounds of $seconds s each; durability: $durability"
./rowmill sandbox start "$name" --target "sandbox:mariadb?memory=2GB&redo=2GB&durability=$durability" --json >"$work/server.json"
socket=$(sed -n 's/^ *"socket": "\(.*\)",*$/\1/p' "$work/server.json" | head -1)
[ -S "$socket" ] || { echo "bench-sysbench: the server's socket is missing: $socket" >&2; exit 1; }
mariadb --no-defaults -u root -S "$socket" -e 'CREATE DATABASE sysbench'

TIMEFORMAT='%U %S'
options=(--mysql-socket="$socket" --mysql-user=root --mysql-db=sysbench --tables=1 --table-size=10000 --rand-type=uniform)

# Each function prints rows, seconds, CPU seconds of the client.
run_sysbench() {
  sysbench oltp_insert "${options[@]}" cleanup >/dev/null 2>&1 || true
  sysbench oltp_insert "${options[@]}" prepare >/dev/null
  { time sysbench oltp_insert "${options[@]}" --threads="$1" --time="$seconds" run >"$work/out" 2>"$work/err"; } 2>"$work/cpu" ||
    { cat "$work/err" "$work/out" >&2; exit 1; }
  awk '/^ *write: / { rows = $2 } /total time:/ { sub("s", "", $3); secs = $3 } END { printf "%s %s ", rows, secs }' "$work/out"
  awk 'END { print $1 + $2 }' "$work/cpu"
}
run_rowmill() {
  { time ./rowmill bench insert --target "mariadb://root@localhost/rowmill?socket=$socket" --preset sbtest --batch 1 \
    --writers "$1" --time "${seconds}s" --no-verify --drop-existing --json >"$work/out" 2>"$work/err"; } 2>"$work/cpu" ||
    { cat "$work/err" >&2; exit 1; }
  awk -F '[:,]' '/^ *"rows":/ { rows = $2 } /^ *"seconds":/ { secs = $2 } END { printf "%s %s ", rows, secs }' "$work/out"
  awk 'END { print $1 + $2 }' "$work/cpu"
}

for n in $writers; do
  for ((round = 1; round <= rounds; round++)); do
    tools="sysbench rowmill"
    [ $((round % 2)) = 1 ] || tools="rowmill sysbench" # so that neither always runs first
    for tool in $tools; do
      printf '%s %s %s\n' "$tool" "$n" "$("run_$tool" "$n")" | tee -a "$work/results" |
        awk '{ printf "  %-9s %2d connections: %8.0f rows/s, client CPU %6.2f us/row\n", $1, $2, $3 / $4, 1e6 * $5 / $3 }' >&2
    done
  done
done

awk -v writers="$writers" '
  function median(key, n,    i, j, t, v) {
    for (i = 1; i <= n; i++) v[i] = data[key, i]
    for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
  }
  { n = ++count[$1, $2]; data["rate", $1, $2, n] = $3 / $4; data["cpu", $1, $2, n] = 1e6 * $5 / $3 }
  END {
    printf "%11s %25s %8s %29s %8s\n", "", "rows/s", "", "client CPU, us/row", ""
    printf "%11s %12s %12s %8s %14s %14s %8s\n", "connections", "sysbench", "rowmill", "ratio", "sysbench", "rowmill", "ratio"
    m = split(writers, w, " ")
    for (i = 1; i <= m; i++) {
      n = count["sysbench", w[i]]
      a = median("rate" SUBSEP "sysbench" SUBSEP w[i], n); b = median("rate" SUBSEP "rowmill" SUBSEP w[i], n)
      c = median("cpu" SUBSEP "sysbench" SUBSEP w[i], n); d = median("cpu" SUBSEP "rowmill" SUBSEP w[i], n)
      printf "%11d %12.0f %12.0f %8.3f %14.2f %14.2f %8.3f\n", w[i], a, b, b / a, c, d, d / c
    }
  }' "$work/results"
