#!/usr/bin/env bash
# timed.sh NAME COMMAND...: runs a step of `make test` and notes how long it took. timed.sh --table: prints the notes.
set -euo pipefail
notes=out/timing.tsv
mkdir -p out
if [ "$1" = --table ]; then
    printf '\n%-20s %10s\n' step seconds
    awk -F '\t' '{ printf "%-20s %10d\n", $1, $2; total += $2 } END { printf "%-20s %10d\n", "total", total }' "$notes"
    exit
fi
name=$1
shift
printf '\n=== %s\n' "$name"
start=$SECONDS
"$@"
printf '%s\t%d\n' "$name" "$((SECONDS - start))" >>"$notes"
