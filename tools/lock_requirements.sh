#!/usr/bin/env bash
# Compiles requirements/*.in into complete, hashed lock files.
set -euo pipefail
uv=${UV:-.venv/bin/uv}
compile() {
    "$uv" pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --generate-hashes "$@"
}
compile --override requirements/overrides.txt requirements/dev.in -o requirements/dev.txt
compile --no-deps requirements/data.in -o requirements/data.txt
compile --no-deps requirements/bench.in -o requirements/bench.txt
grep '^uv==' requirements/dev.in | compile --no-deps - -o requirements/bootstrap.txt
