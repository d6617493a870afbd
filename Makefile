# assay: `make run` is the main job from nothing; `make help` lists the rest.

PYTHON ?= python3
DEVICE ?= auto
FILE ?= configs/experiments/quickstart.yaml
MODEL ?= smollm2-135m-instruct
ARGS ?=
UV ?= uv
BIN := .venv/bin
SETUP := $(PYTHON) requirements/bootstrap.py --device $(DEVICE) $(if $(filter-out python3,$(PYTHON)),--python $(PYTHON))

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev other-vllm model run up test test-ui test-slow coverage bench bench-peers bench-load other-server gpu lint format docs ui lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create .venv and install what the lists name (again only when they changed)
	@$(SETUP)

setup-dev: ## the same, with the tools for tests and lint
	@$(SETUP) --dev

other-vllm: setup ## an environment with another vLLM, for `engine.python` (VERSION=0.31.0, FOLDER=...)
	@$(BIN)/python requirements/other_vllm.py $(VERSION) $(FOLDER)

model: setup ## convert the small model, once
	@$(BIN)/python -m flows.cli models prepare $(MODEL)

run: model ## set up, then run an experiment (FILE=..., ARGS="--limit 5")
	@$(BIN)/assay run $(FILE) $(ARGS)

up: model ## the Prefect and MLflow servers and the workers, until Ctrl-C
	@$(BIN)/assay up $(ARGS)

test: setup-dev ## the tests that take seconds (ARGS="-k plan")
	@$(BIN)/python -m tests.halves $(ARGS)

test-ui: setup-dev ## only the tests that look at pages in a real Chromium
	@$(BIN)/python -m pytest -m ui $(ARGS)

test-slow: setup-dev ## the tests that take minutes
	@$(BIN)/python -m pytest -m slow $(ARGS)

COVERED := tests/unit/score tests/unit/dataset tests/unit/judge tests/unit/test_reasoning.py

coverage: setup-dev ## how many lines of tasks/score and tasks/dataset their tests run: at least 95 %
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	@$(BIN)/python -m coverage run -m pytest -q -m "not slow" $(COVERED) $(ARGS)
	@$(BIN)/python -m coverage combine -q
	@$(BIN)/python -m coverage report --include='tasks/score/*,tasks/dataset/*' --fail-under=95

bench: setup-dev ## what assay adds to vLLM, and the warehouse's speed, against bare controls (minutes)
	@$(BIN)/python -m tests.bench.overhead
	@$(BIN)/python -m tests.bench.engine prefill
	@$(BIN)/python -m tests.bench.engine quickstart
	@$(BIN)/python -m tests.bench.engine_options
	@$(BIN)/python -m tests.bench.orchestration
	@$(BIN)/python -m tests.bench.warehouse
	@$(BIN)/python -m tests.bench.scoring
	@$(BIN)/python -m tests.bench.statistics
	@$(BIN)/python -m tests.bench.tokenize
	@$(BIN)/python -m tests.bench.load
	@$(BIN)/python -m tests.bench.endpoint
	@$(BIN)/python -m tests.bench.detection

gpu: setup-dev ## what assay says of GPUs, measured on this machine's card (ARGS="--cases graphs"); goes on where it stopped
	@$(BIN)/python -m tests.gpu --out .cache/gpu $(ARGS)
	@$(BIN)/python -m tests.gpu.tables .cache/gpu

bench-peers: setup-dev ## assay beside lm-evaluation-harness, which it installs in an environment of its own (minutes)
	@$(BIN)/python -m tests.bench.peers.lm_eval $(ARGS)

bench-load: setup-dev ## assay beside vllm bench and guidellm on one server: do they measure the same (minutes)
	@$(BIN)/python -m tests.bench.peers.serving $(ARGS)

other-server: setup ## an environment with llama-cpp-python's server, for tests that ask it (compiles for minutes)
	@$(BIN)/python requirements/other_server.py

lint: setup-dev ## formatting, style, types, and the direction of the imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup-dev ## lay the code out as lint wants it
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: setup-dev ## write the pages of docs/ that come from the code
	@$(BIN)/python -m flows.reference

ui: setup ## the recorded runs in a browser, on this machine only
	@$(BIN)/assay ui $(ARGS)

# TORCH_INDEX or TORCH_LINKS: where torch's CPU build is found, if not where uv looks anyway.
COMPILE := $(UV) pip compile --python-version 3.11 --overrides overrides.txt --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --no-annotate --quiet \
	$(if $(TORCH_LINKS),--find-links $(TORCH_LINKS)) \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX) --index-strategy unsafe-best-match)

lock: ## resolve requirements/*.in into the pinned lists (needs uv)
	cd requirements && $(COMPILE) cpu.in --universal --excludes excluded-cpu.txt -o cpu.txt
	cd requirements && $(COMPILE) cuda.in --python-platform x86_64-unknown-linux-gnu --excludes excluded-cuda.txt -o cuda.txt
	cd requirements && $(COMPILE) dev.in --universal --excludes excluded-cpu.txt -o dev.txt

clean: ## remove .venv and caches; your results in warehouse/data stay
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './warehouse/data/*' -prune -exec rm -rf {} +
