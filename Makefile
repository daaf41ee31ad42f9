# Two commands do everything on a fresh machine: `make run` (audit of the embedded vectors) and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
COMMA := ,
PIP := $(BIN)/python -m pip install --quiet
# The files of requirements/$(1).txt, each compared with its SHA-256, then the package itself with extras $(2). Another build of
# torch needs packages that the file does not have; then constraints.txt gives the versions, unless REQUIRE_HASHES is set.
define install
	$(PIP) --require-hashes --requirement requirements/$(1).txt \
	  && $(PIP) --no-build-isolation --no-deps --editable . \
	  || { test -z "$(REQUIRE_HASHES)" \
	  && echo "The locked files do not fit this machine: installing the versions of constraints.txt, without hashes." \
	  && $(PIP) --constraint constraints.txt --editable "$(2)"; }
endef

.PHONY: run test lint types layers docs unit slow faults fuzz bench floors release lock clean

run: $(VENV)/.core
	$(BIN)/evenhand audit --out runs/latest
	@echo "Call the command as $(BIN)/evenhand, or activate the environment first: . $(BIN)/activate"

test: lint types layers docs unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

# The documentation as a site, in site/. A broken link or anchor, and a page that loads anything from elsewhere, is an error.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python scripts/check_site.py site

# One thread in each of the two processes: small products of several threads on shared cores wait for each other.
unit: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

# What the default run leaves out because it takes long or needs the network.
slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

# Commands that write, killed 100 times each, on full and read-only disks, side by side; FAULT_TRIALS changes the number.
# Results: tests/faults/RESULTS.md.
faults: $(VENV)/.dev
	OMP_NUM_THREADS=1 FAULT_RECORD=1 $(BIN)/python -m pytest -m faults tests/faults

# Fuzz every reader for TIME seconds each; TARGET=gguf for one. Results: tests/fuzz/results.json and tests/fuzz/found.
TIME ?= 60
fuzz:
	$(PYTHON) -m venv $(VENV)-fuzz
	$(VENV)-fuzz/bin/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,elmo,web]" atheris
	OMP_NUM_THREADS=1 nice -n 19 $(VENV)-fuzz/bin/python tests/fuzz/campaign.py $(TIME) $(TARGET)

# Ours and other tools in turn, each tool in an environment of its own, which is installed once into .bench: about 40
# minutes on two quiet cores. Results: benchmarks/RESULTS.md. BENCH="load-first hard --repeats 3" chooses, BENCH=--quick
# takes one of each area, in about five minutes; see --help.
bench: $(VENV)/.dev
	$(BIN)/python benchmarks/bench.py $(BENCH)

# The tests of the core with the lowest versions that pyproject.toml allows, in an environment of their own.
floors:
	PYTHON=$(PYTHON) .ci/floors

# Wheel and sdist, installed and used without the repository; bill of materials and licences in dist/.
release:
	PYTHON=$(PYTHON) .ci/release

# Every package with the SHA-256 of its files, in requirements/; after a change of pyproject.toml or constraints.txt.
lock:
	$(PYTHON) scripts/lock.py

$(VENV)/.core: pyproject.toml constraints.txt requirements/core.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,core,.)
	touch $@

$(VENV)/.dev: $(VENV)/.core requirements/dev.txt
	$(call install,dev,.[dev$(COMMA)docs$(COMMA)models$(COMMA)gensim$(COMMA)ray$(COMMA)japanese$(COMMA)web$(COMMA)endpoint])
	touch $@

clean:
	rm -rf $(VENV) runs dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
