PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup demo quick test compiled long study wheel lint bench images models docs clean

# Modules are compiled once, also where the environment says otherwise: the tests start many
# processes, each of which would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml paper/pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cfopt needs Python 3.11 or newer; run make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all,dev]" -e ./paper
	touch $@

demo: setup  ## explain a map in all three ways, naive beside plausible, and a day of flights
	$(BIN)/cfopt demo

QUICK := tests/core tests/problems tests/exact/test_exact.py::TestClosedForm
# One thread each: the tests are small, and threads of several processes would wait for each other.
# By file: what its tests share is made once; tests/conftest.py says what comes first.
# Four processes: those of the explorer often wait.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

quick: setup  ## the core and the contracts, while a change is under way
	$(PYTEST) $(QUICK) -m "not slow and not long"

test: setup  ## everything that must hold before a change lands
	$(MAKE) --no-print-directory lint & checks=$$!; \
	$(MAKE) --no-print-directory compiled && \
	$(PYTEST) -m "not study and not long" && wait $$checks

# What tests import, and the functions of trees, by one process: four that begin together would
# each compile it.
compiled: setup
	@$(BIN)/python -c 'import pytest; from cfopt.trees.warm_up import warm_up; warm_up(); pytest.main(["--collect-only", "-qq"])' > /dev/null

long: setup  ## killed and restarted processes, searches beside each other, and what else takes long
	$(PYTEST) -m long

study: setup  ## the whole paper at the quick scale, which takes some minutes
	$(PYTEST) -m study

wheel:  ## build the wheel, and use it in an empty environment, extra by extra
	$(PYTHON) .ci/check_wheel.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## what is claimed about speed and quality, measured side by side
	$(BIN)/python -m benchmarks

images: setup  ## the pictures of the README, drawn and photographed anew (needs a chromium)
	$(BIN)/python -m docs.make_images

docs: setup  ## the documentation site, in site/; a broken link or a missing reference fails
	$(BIN)/python -m docs.generate
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/zensical build --clean --strict

models: setup  ## train the shipped terrain models anew, where they are missing
	$(BIN)/python -m cfopt.models.build

clean:
	rm -rf $(VENV) build dist site docs/made .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
