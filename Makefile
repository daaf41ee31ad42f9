# Two commands do everything on a fresh machine: `make run` (audit of the embedded vectors) and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: run test lint types layers unit slow floors clean

run: $(VENV)/.core
	$(BIN)/evenhand audit --out runs/latest
	@echo "Call the command as $(BIN)/evenhand, or activate the environment first: . $(BIN)/activate"

test: lint types layers unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

# One thread in each of the two processes: small products of several threads on shared cores wait for each other.
unit: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

# What the default run leaves out because it takes long or needs the network.
slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

# The tests of the core with the lowest versions that pyproject.toml allows, in an environment of their own.
floors:
	PYTHON=$(PYTHON) .ci/floors

$(VENV)/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) --editable ".[dev,models,gensim,ray,japanese]"
	touch $@

clean:
	rm -rf $(VENV) runs dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
