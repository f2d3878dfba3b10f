#!/usr/bin/env bash
# Compares rowmill serve with HAProxy in TCP mode, the least that a proxy costs, and with the server directly: sysbench's
# oltp_point_select and oltp_read_only on one private MariaDB in memory, runs interleaved. Clients connect over TCP on
# loopback, both proxies to the server's socket. Prints medians over rounds: statements per second, the ratio of
# serve to HAProxy, and the CPU time of each proxy per statement.
#
#   scripts/bench-serve.sh
#
# Variables: ROUNDS (5), the number of rounds; SECONDS_EACH (5), the length of a run; CLIENTS ("1 16"), the numbers of
# clients; TESTS ("oltp_point_select oltp_read_only"); WANT (0.8), the least ratio: exit code 1 below it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-5}
clients=${CLIENTS:-1 16}
tests=${TESTS:-oltp_point_select oltp_read_only}
want=${WANT:-0.8}
scripts/install.sh gcc mariadb sysbench haproxy
[ -x ./rowmill ] || make --no-print-directory build
PATH=$PATH:/usr/sbin

name=bench-serve-$$
work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
  done
  ./rowmill sandbox stop "$name" --yes >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
echo "$(sysbench --version), $(haproxy -v | awk 'NR == 1 { print $1, $3 }'), $(nproc) cores; $rounds rounds of $seconds s each"
./rowmill sandbox start "$name" --target "sandbox:mariadb?memory=256MB&durability=none" --json >"$work/server.json"
socket=$(sed -n 's/^ *"socket": "\(.*\)",*$/\1/p' "$work/server.json" | head -1)
[ -S "$socket" ] || { echo "bench-serve: the server's socket is missing: $socket" >&2; exit 1; }
mariadb --no-defaults -u root -S "$socket" -e 'CREATE DATABASE sysbench'

# A port that nothing listens at.
free_port() {
  local p
  for ((p = $1; p < 65000; p++)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }
  done
}
haproxy_port=$(free_port 24500)
serve_port=$(free_port $((haproxy_port + 1)))
cat >"$work/haproxy.cfg" <<CONFIG
global
  maxconn 1000
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen proxy
  bind 127.0.0.1:$haproxy_port
  server s1 unix@$socket
CONFIG
haproxy -f "$work/haproxy.cfg" >"$work/haproxy.log" 2>&1 &
haproxy_pid=$!
./rowmill serve --mysql ":$serve_port" --target "mariadb://root@localhost/sysbench?socket=$socket" >"$work/serve.log" 2>&1 &
serve_pid=$!
pids=("$haproxy_pid" "$serve_pid")
for port in "$haproxy_port" "$serve_port"; do
  for ((i = 0; ; i++)); do
    mariadb --no-defaults -u root -h 127.0.0.1 -P "$port" -e 'SELECT 1' >/dev/null 2>&1 && break
    [ "$i" -lt 100 ] || { echo "bench-serve: nothing answers at port $port" >&2; cat "$work"/*.log >&2; exit 1; }
    sleep 0.1
  done
done

table=(--mysql-user=root --mysql-db=sysbench --tables=1 --table-size=10000)
sysbench oltp_read_only "${table[@]}" --mysql-socket="$socket" prepare >/dev/null
# CPU time of a process, in ticks of 1/CLK_TCK s.
cpu() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# Prints statements, seconds, ticks of the proxy.
run() {
  local at pid=self before after
  case $1 in
    direct) at=(--mysql-socket="$socket") ;;
    haproxy) at=(--mysql-host=127.0.0.1 --mysql-port="$haproxy_port") pid=$haproxy_pid ;;
    serve) at=(--mysql-host=127.0.0.1 --mysql-port="$serve_port") pid=$serve_pid ;;
  esac
  before=$(cpu "$pid")
  sysbench "$2" "${table[@]}" "${at[@]}" --threads="$3" --time="$seconds" run >"$work/out" 2>"$work/err" ||
    { cat "$work/err" "$work/out" >&2; exit 1; }
  after=$(cpu "$pid")
  awk -v ticks=$((after - before)) '/^ *queries: / { n = $2 } /total time:/ { sub("s", "", $3); t = $3 } END { print n, t, ticks }' "$work/out"
}

for t in $tests; do
  for n in $clients; do
    for ((round = 1; round <= rounds; round++)); do
      ways="direct haproxy serve"
      [ $((round % 2)) = 1 ] || ways="serve haproxy direct" # so that neither always runs first
      for way in $ways; do
        printf '%s %s %s %s\n' "$t" "$n" "$way" "$(run "$way" "$t" "$n")" | tee -a "$work/results" |
          awk '{ printf "  %-18s %2d clients, %-7s %8.0f statements/s\n", $1, $2, $3, $4 / $5 }' >&2
      done
    done
  done
done

awk -v hz="$(getconf CLK_TCK)" -v want="$want" '
  function median(key, n,    i, j, t, v) {
    for (i = 1; i <= n; i++) v[i] = data[key, i]
    for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
  }
  {
    k = $1 SUBSEP $2
    if (!(k in seen)) { seen[k] = 1; order[++m] = k }
    n = ++count[k, $3]
    data[k SUBSEP $3 SUBSEP "rate", n] = $4 / $5
    data[k SUBSEP $3 SUBSEP "cpu", n] = 1e6 * $6 / hz / $4
    rounds = n > rounds ? n : rounds
  }
  END {
    printf "%-18s %7s %33s %8s %21s\n", "", "", "statements/s", "", "CPU, us/statement"
    printf "%-18s %7s %11s %10s %10s %8s %10s %10s\n", "test", "clients", "direct", "HAProxy", "serve", "ratio", "HAProxy", "serve"
    for (i = 1; i <= m; i++) {
      split(order[i], part, SUBSEP); k = order[i]
      h = median(k SUBSEP "haproxy" SUBSEP "rate", rounds); s = median(k SUBSEP "serve" SUBSEP "rate", rounds)
      # Of each round, so that other work on the machine hits both.
      for (r = 1; r <= rounds; r++) data[k SUBSEP "ratio", r] = data[k SUBSEP "serve" SUBSEP "rate", r] / data[k SUBSEP "haproxy" SUBSEP "rate", r]
      ratio = median(k SUBSEP "ratio", rounds)
      printf "%-18s %7d %11.0f %10.0f %10.0f %8.2f %10.1f %10.1f\n", part[1], part[2], median(k SUBSEP "direct" SUBSEP "rate", rounds), h, s, ratio,
        median(k SUBSEP "haproxy" SUBSEP "cpu", rounds), median(k SUBSEP "serve" SUBSEP "cpu", rounds)
      if (ratio < want) failed = 1
    }
    if (failed) { print "below " want " of the rate of HAProxy"; exit 1 }
  }' "$work/results"
