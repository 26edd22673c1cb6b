# One command a line of `make help`. Everything lands in .venv, target, .cache, dist and out, all of which git ignores.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv
DEMO_ARGS ?=
BENCH_ARGS ?=
KERNELS_ARGS ?=

# Models come from packages, never from a hub. vLLM runs inside the calling process, and OpenMP threads sleep between two
# steps instead of spinning.
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
export VLLM_CPU_KVCACHE_SPACE := 1
export VLLM_ENABLE_V1_MULTIPROCESSING := 0
export VLLM_NO_USAGE_STATS := 1
export GOMP_SPINCOUNT := 0
export OMP_WAIT_POLICY := passive
export KMP_BLOCKTIME := 0
# The compiler of the HIP kernels where no ROCm is installed: the clang of the ziglang wheel.
export SPECVERIFY_ZIGLANG := $(CURDIR)/$(BIN)/python

SOURCES := $(shell find rust python hip \( -name target -o -name __pycache__ \) -prune -o -type f \
	\( -name '*.rs' -o -name '*.toml' -o -name '*.py' -o -name '*.pyi' -o -name 'py.typed' -o -name '*.h' -o -name '*.hip' \) -print 2>/dev/null) \
	Cargo.toml Cargo.lock pyproject.toml build_backend.py README.md
SETUP := $(VENV)/.setup
INSTALLED := $(VENV)/.specverify
MODEL := .cache/smollm2/READY.json

.PHONY: help setup deps debian build model demo test lint lint-rust lint-python test-rust test-python test-vllm test-demo \
	test-docs bench kernels mutate wheel lock pictures clean

help: ## Say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: deps debian build model ## Put everything into .venv: tools, torch, vLLM, specverify; and the demo's model into .cache
	@echo "setup: ready. Next: make demo"

deps: $(SETUP)

# Installed again only when a lock file differs from the one last installed.
$(SETUP): requirements/dev.txt requirements/data.txt requirements/bootstrap.txt
	@PYTHON="$(PYTHON)" VENV="$(VENV)" tools/install_requirements.sh
	@touch $@

# A real HIP runtime and its headers, for the tests of the kernels' loader.
debian: deps
	@$(BIN)/python tools/debian_hip.py

build: $(INSTALLED)

$(INSTALLED): $(SETUP) $(SOURCES)
	@echo "setup: building specverify (Rust, release) and installing its wheel into $(VENV)"
	@rm -rf dist/local
	@$(UV) build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir dist/local .
	@$(UV) pip install --quiet --no-deps --reinstall-package specverify dist/local/*.whl
	@touch $@

model: $(MODEL)

$(MODEL): $(SETUP) demo/prepare_model.py
	@$(BIN)/python -m demo.prepare_model

demo: setup ## Run SmolLM2-135M in vLLM with and without specverify: table, out/demo.png, out/demo.html
	@$(BIN)/python -m demo $(DEMO_ARGS)

test: ## Run everything: lint, Rust, Python, vLLM, a clean wheel, the demo end to end
	@rm -f out/timing.tsv
	@tools/timed.sh setup $(MAKE) setup
	@tools/timed.sh lint $(MAKE) lint
	@tools/timed.sh "cargo test" $(MAKE) test-rust
	@tools/timed.sh "pytest" $(MAKE) test-python
	@tools/timed.sh "pytest (vLLM)" $(MAKE) test-vllm
	@tools/timed.sh "demo --quick" $(MAKE) test-demo
	@tools/timed.sh --table

lint: lint-rust lint-python ## clippy, rustfmt, ruff and mypy, warnings being errors

lint-rust: deps
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

lint-python: build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-rust: deps
	cargo test --workspace --locked --quiet
	cargo run --profile test --quiet --locked --package specverify --example quickstart

test-python: build
	$(BIN)/python -m pytest tests --ignore=tests/vllm -q

test-vllm: build model
	$(BIN)/python -m pytest tests/vllm -q

test-demo: build model
	$(BIN)/python -m demo --quick --out out/quick

# The test profile, which optimises: what `make test` has built is not built again.
kernels: build ## Print what the compiler and the simulator say of each HIP kernel, and estimates of attention's times on MI300X and MI355X
	@cargo run --profile test --quiet --locked --package specverify-hip --example kernels -- $(KERNELS_ARGS)
	@echo
	@$(BIN)/python -m bench.roofline

mutate: deps ## Leave out each wait and barrier of every kernel in turn, on all cores: who notices, what is redundant, what survives
	@cargo test --package specverify-hip --test mutants --locked --quiet -- --ignored --nocapture

bench: build model ## Run the Rust and Python benchmarks and print one table (quiet machine, please)
	@cmp -s requirements/bench.txt $(VENV)/.bench.lock || { echo "bench: installing the peers to compare with"; \
		$(UV) pip install --no-deps --require-hashes -r requirements/bench.txt; cp requirements/bench.txt $(VENV)/.bench.lock; }
	@$(BIN)/python -m bench $(BENCH_ARGS)

wheel: $(SETUP) ## Build a wheel and a source distribution into dist/
	@$(UV) build --no-build-isolation --python $(BIN)/python --out-dir dist .
	@ls -lh dist/*.whl dist/*.tar.gz

lock: $(SETUP) ## Compile requirements/*.in into the pinned requirements/*.txt
	@tools/lock_requirements.sh

pictures: build ## Draw the pictures of the documentation again
	@$(BIN)/python docs/images/make_tree_picture.py

clean: ## Remove what the targets above made (.venv and .cache too)
	rm -rf $(VENV) target dist out .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
