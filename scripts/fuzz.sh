#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other: go takes only one
# target of one package at a time. A target that fails doesn't keep the others
# from running.
#
#   scripts/fuzz.sh [TIME]      TIME for each target, as go reads it (20s)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-20s}

# fuzz runs one target. Go ends its workers when the time is over, and on a busy
# machine takes the one that doesn't answer for a failure, "context deadline
# exceeded" without an input that fails: that is none.
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
