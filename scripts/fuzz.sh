#!/usr/bin/env bash
# Runs every fuzz target of the module in turn: go accepts only one target of one
# package at a time. A target that fails doesn't stop the others.
#
#   scripts/fuzz.sh [TIME]      TIME for each target, a Go duration (20s)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-20s}

# fuzz runs one target. Go stops its workers when the time is over. On a busy
# machine it reports a worker that doesn't respond as a failure, "context deadline
# exceeded" without a failing input. That is not counted as a failure.
fuzz() { # TARGET PACKAGE
  go test -run '^$' -fuzz "^$1\$" -fuzztime "$time" -fuzzminimizetime 5x "$2" 2>&1 | tee "$output" && return
  grep -q '^    context deadline exceeded$' "$output" && ! grep -q 'Failing input' "$output"
}

output=$(mktemp)
trap 'rm -f "$output"' EXIT
found=0
failed=()
packages=$(go list ./...)
for package in $packages; do
  targets=$(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true)
  for target in $targets; do
    printf '== %s of %s, %s\n' "$target" "$package" "$time"
    fuzz "$target" "$package" || failed+=("$target of $package")
    found=$((found + 1))
  done
done
if [ "$found" = 0 ]; then
  echo "fuzz: no fuzz target found" >&2
  exit 1
fi
[ ${#failed[@]} = 0 ] || { printf 'fuzz: failed: %s\n' "${failed[@]}" >&2; exit 1; }
