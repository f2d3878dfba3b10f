#!/usr/bin/env bash
# Demonstrates rowmill on the embedded SQLite, on a machine that has Go: fills a
# plain table and one divided into periods (time partitions), and shows both
# curves in one report. Takes under 3 minutes; all output is in demo/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v go >/dev/null; then
  echo "demo: Go is missing: install the release that go.mod names, or a later one, from https://go.dev/dl/" >&2
  exit 1
fi
scripts/install.sh gcc
make --no-print-directory build

mkdir -p demo
rm -f demo/run.jsonl demo/report.html
# A cache of 16 MB represents a server's memory: a million rows with three
# secondary indexes are several times as large. Nothing is synced (durability
# none), so that the result shows the layouts and not this disk.
./rowmill bench insert --target 'sqlite:?cache=16MB&durability=none' --preset classic --indexes 3 \
  --layout plain,rolling --rows 1000000 --batch 1000 \
  --out demo/run.jsonl --html demo/report.html

echo
echo "The report: $PWD/demo/report.html   The record: $PWD/demo/run.jsonl"
