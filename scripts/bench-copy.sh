#!/usr/bin/env bash
# Compares rowmill copy with tar, netcat and pigz on this machine: the same files from memory to receivers on loopback, runs
# interleaved. Prints the seconds of each run, until every copy is complete.
#
#   scripts/bench-copy.sh
#
# Variables: ROUNDS (3), the number of rounds; MIB (2048), the size of the files; HOSTS ("1 4 8"), the lengths of the chain;
# LIMIT (none), what each host sends in a second, such as 25MB/s.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=${ROUNDS:-3}
hosts=${HOSTS:-1 4 8}
scripts/install.sh gcc netcat
[ -x ./rowmill ] || make --no-print-directory build
rowmill=$PWD/rowmill
work=$(mktemp -d -p /dev/shm)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$work"
mkdir source
for i in $(seq 20); do head -c $((${MIB:-2048} * 1048576 / 20)) /dev/urandom >source/file$i; done
(umask 077 && head -c 24 /dev/urandom | base64 >token)

# run WHAT COMMAND... waits for the receivers in pids, too.
run() {
  local what=$1 begin=$EPOCHREALTIME
  shift
  "$@"
  wait "${pids[@]}"
  awk -v what="$what" -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%-20s %6.1f s\n", what, b - a }'
  pids=()
  rm -rf copy*
}

copy() {
  local at=()
  for i in $(seq "$1"); do
    "$rowmill" copy receive "copy$i" --listen "127.0.0.1:$((19400 + i))" --token-file token >>log 2>&1 &
    pids+=($!)
    at+=("127.0.0.1:$((19400 + i))")
  done
  run "rowmill, $1 hosts" "$rowmill" copy send source "${at[@]}" --token-file token ${LIMIT:+--limit "$LIMIT"} >out 2>>log || { cat log >&2; exit 1; }
  tail -1 out
}

pipes() { # NAME PACK UNPACK
  mkdir copy
  (nc -N -l 127.0.0.1 19499 | $3 | tar -x -C copy) &
  pids+=($!)
  sleep 0.3
  run "$1, 1 host" bash -c "tar -c -C source . | $2 | nc -N 127.0.0.1 19499"
}

for _ in $(seq "$rounds"); do
  for n in $hosts; do copy "$n"; done
  pipes 'tar, nc' cat cat
  pipes 'tar, nc, pigz' 'pigz -1' 'pigz -d'
done
