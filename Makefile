# What the README names. Every target begins with a virtual environment that has the versions of constraints.txt.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread a process: with two cores and two test workers, more threads only take turns.
export OMP_NUM_THREADS ?= 1

# What `make chaos` draws: SEED and FAULTS say which faults, KINDS which kinds of these, ONLY the number of one, JOBS how
# many at a time.
export SEED FAULTS KINDS ONLY JOBS
# Tests at a time, for two cores: a third of their time is waiting.
export WORKERS ?= 4
# Tests start many processes; each would compile the package anew where bytecode is not kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-all chaos table bench leaderboard check docs format lint layers types clean
.DEFAULT_GOAL := test

# What is installed grows with what is asked for: the package, what tests need, what the checks and long tests need.
setup: $(VENV)/installed-dev

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crowdsweep needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

# Not all is compiled, half of the time would go into what nobody imports: what everybody does is imported once.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable
IMPORT = $(BIN)/python -P -c 'import matplotlib.pyplot, mlflow, optuna, pandas, ray, scipy.stats, sklearn.linear_model, torch'

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) .
	$(IMPORT)
	touch $@

$(VENV)/installed-test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) '.[test]'
	$(IMPORT)
	touch $(VENV)/installed $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) '.[dev]'
	$(IMPORT)
	touch $(VENV)/installed $(VENV)/installed-test $@

demo: $(VENV)/installed
	$(BIN)/crowdsweep demo

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not long"

# Contains all of `test`; the long campaigns beside it, shapes checked everywhere, and a hundred faults.
test-all: setup
	CROWDSWEEP_MUTATIONS=10000 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --shapes everywhere \
		--jaxtyping-packages=crowdsweep,late_beartype.checked_when_called
	PYTHONPATH=tests $(BIN)/python -m chaos.campaign

chaos: $(VENV)/installed-test
	PYTHONPATH=tests $(BIN)/python -m chaos.campaign

table: setup
	$(BIN)/python tests/benchmarks/aggregators_table.py

# Every promise of speed, with peers.
bench: setup
	PYTHONPATH=tests $(BIN)/python tests/benchmarks/bench.py

# Public datasets stand where CROWDSWEEP_DATA says; killed, it goes on where it was.
leaderboard: $(VENV)/installed
	$(BIN)/crowdsweep run leaderboard
	$(BIN)/crowdsweep run leaderboard-features
	$(BIN)/crowdsweep run leaderboard-searched
	$(BIN)/crowdsweep run leaderboard-features-searched
	$(BIN)/python tests/assets/leaderboard.py

check: setup lint layers types docs test

# The documentation site, into site/; a link or an anchor that leads nowhere ends it. (The variable: no advertisement.)
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check

layers: setup
	$(BIN)/lint-imports

types: setup
	$(BIN)/pyright

format: setup
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean:
	rm -rf $(VENV) site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
