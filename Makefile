# make explore | test | test-all | faults | acceptance | check | bench. Each makes .venv first when it is missing or out of date.
# Another interpreter: make test PYTHON=python3.12     Another place: make test VENV=/some/folder
# Without make: the README has the same steps as plain pip commands.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PORT ?= 8501
PYTEST_ARGS ?=
# One process per core, four at most: each holds torch. A file stays in one process, for its models are trained once.
PARALLEL := -n logical --maxprocesses 4 --dist loadfile

FAULTS_ARGS ?=

.PHONY: install explore test test-all faults acceptance check format bench clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Residual Lab needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

explore: $(STAMP)
	$(BIN)/residlab explore --port $(PORT)

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" $(PARALLEL) $(PYTEST_ARGS)

# The slow ones one after the other: some of them measure time
test-all: test
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

# Kill, damage, fill up and race for some minutes; FAULTS_ARGS="--only kills --scale 0.1"
faults: $(STAMP)
	$(BIN)/python -m tests.faults $(FAULTS_ARGS)

acceptance: $(STAMP)
	$(BIN)/python -m pytest -m acceptance $(PYTEST_ARGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/residlab bench

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
