# The whole project from a fresh clone: python3, python3-venv and make are all it takes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --no-warn-script-location
RUNTIME := $(VENV)/.runtime-installed
DEVELOPMENT := $(VENV)/.development-installed
CHECKED := one_preempt tests benchmarks packaging
TESTS ?= tests

.DEFAULT_GOAL := help
.PHONY: help setup demo picture test blue stories rank-cases fuzz lint format bench experiments deb rpm lock clean

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "make: $(PYTHON) is missing or older than 3.11; name another one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "make: $(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "Making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(RUNTIME): requirements/runtime.txt pyproject.toml | $(BIN)/python
	@echo "Installing one_preempt (requirements/runtime.txt)"
	@$(PIP) --require-hashes -r requirements/runtime.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEVELOPMENT): requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "Installing one_preempt and its tools (requirements/dev.txt)"
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $(RUNTIME) $@

setup: $(DEVELOPMENT) ## Make .venv with everything, from the locked requirements

demo: $(RUNTIME) ## See a preemption on an emulated cloud; needs no OpenNebula
	@$(BIN)/one-preempt demo

picture: $(RUNTIME) ## Make the picture of the demonstration, docs/images/demo.svg, from its real output
	@$(BIN)/python docs/images/make_picture.py

# The processes that tests start would each compile the package anew where Python may not keep what it compiled. In a
# checkout that is read-only they do.
test: $(DEVELOPMENT) ## Run the tests (TESTS=tests/core for some of them)
	@$(BIN)/python -m compileall -qq one_preempt || true
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal $(TESTS)

blue: $(DEVELOPMENT) ## Compare every start of 30 days of a real log with the textbook, some minutes
	@BLUE=all $(BIN)/python -m pytest -n auto --maxprocesses 4 tests/simulation/simulator/test_blue_slice.py

stories: $(DEVELOPMENT) ## Tell more random stories than the tests do, and kill at every boundary, most of an hour
	@ONE_PREEMPT_STORIES=$${ONE_PREEMPT_STORIES:-200} ONE_PREEMPT_POWER_STORIES=$${ONE_PREEMPT_POWER_STORIES:-120} \
		ONE_PREEMPT_TIME_STORIES=$${ONE_PREEMPT_TIME_STORIES:-320} ONE_PREEMPT_UNRULY_STORIES=$${ONE_PREEMPT_UNRULY_STORIES:-80} \
		ONE_PREEMPT_DEVICE_STORIES=$${ONE_PREEMPT_DEVICE_STORIES:-160} \
		ONE_PREEMPT_FAIR_STORIES=$${ONE_PREEMPT_FAIR_STORIES:-80} \
		ONE_PREEMPT_CLOCK_EVERY_S=$${ONE_PREEMPT_CLOCK_EVERY_S:-20} \
		ONE_PREEMPT_IMAGE_STORIES=$${ONE_PREEMPT_IMAGE_STORIES:-160} ONE_PREEMPT_BOUNDARIES=all \
		$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal \
		tests/stories tests/simulation/time_stories tests/simulation/power_stories tests/simulation/image_stories

rank-cases: $(DEVELOPMENT) ## Compare all recorded answers of rank with the installed executables, some minutes
	@RANK_CASES=all $(BIN)/python -m pytest tests/rank_cases

fuzz: $(DEVELOPMENT) ## Try 100,000 broken inputs of each kind, for a night (FUZZ_EXAMPLES=100000)
	@FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-100000} RANDOM_CASES=$${RANDOM_CASES:-20000} \
		$(BIN)/python -m pytest -n 2 $$(find tests -name 'test_*_fuzz.py') \
		tests/core/availability tests/core/backfilling tests/core/image_staging \
		$$(grep -l 'naive import CASES' tests/core/test_*.py)

lint: $(DEVELOPMENT) ## Check style, types and who may import whom
	@$(BIN)/ruff check $(CHECKED)
	@$(BIN)/ruff format --check $(CHECKED)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(DEVELOPMENT) ## Mend what ruff can mend
	@$(BIN)/ruff check --fix $(CHECKED)
	@$(BIN)/ruff format $(CHECKED)

bench: $(DEVELOPMENT) ## Measure the speed; fails where a limit is missed
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

SIZE ?= --small
experiments: $(RUNTIME) ## Reproduce the papers' tables, small; the whole ones (SIZE=) take many hours
	@$(BIN)/one-preempt experiment run --all $(SIZE)

# PYTHONS="3.13" makes a third of it, for front-ends with that Python alone.
deb: $(DEVELOPMENT) ## Build the package for Debian 12 and 13 and Ubuntu 24.04 in dist/ (PYTHONS=3.13 for Debian 13)
	@packaging/build deb $(BIN)/python $(or $(PYTHONS),3.11 3.12 3.13)

rpm: $(DEVELOPMENT) ## Build the package for AlmaLinux 8 to 10 in dist/ (PYTHONS=3.12 for AlmaLinux 10)
	@packaging/build rpm $(BIN)/python $(or $(PYTHONS),3.11 3.12)

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml
lock: $(DEVELOPMENT) ## Resolve the requirements anew
	@$(LOCK) --upgrade --extra build --extra metrics --extra dev --extra emulators --output-file requirements/dev.txt
	@$(LOCK) --extra build --extra metrics --constraint requirements/dev.txt --output-file requirements/runtime.txt

clean: ## Remove what was made, but for results of experiments
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	@find one_preempt tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
