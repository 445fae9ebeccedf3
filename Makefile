# `make demo`, `make serve`, `make test` and `make docs`: each sets up whatever it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo serve test test-versions sanitize docs lint wheel clean

demo: $(VENV)/.installed
	$(BIN)/regard demo

# The models in runs/, or the French ↔ English one: a page for people and an API, on this machine only.
serve: $(VENV)/.installed-serve
	$(BIN)/regard serve $(or $(patsubst %/model.json,%,$(wildcard runs/*/model.json)),fr-en)

# Two workers of one thread each: two threads in each would wait for each other.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# A part of the tests with the oldest and the newest versions of all dependencies.
test-versions:
	$(PYTHON) .ci/versions.py

# The source distribution and a wheel for this platform, into dist/; installed and tried in an environment of its own.
wheel: $(VENV)/.installed-dev
	$(BIN)/python .ci/wheel.py

# The compiled functions under the address, undefined-behavior and thread sanitizers: some minutes.
sanitize: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/sanitizers.py

# The documentation site, into site/: open site/index.html. No network is needed to read it.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The interpreter is checked first, so that an old one is named instead of failing inside pip.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Regard needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

SETUP := pyproject.toml setup.py $(wildcard src/regard/native/*.cpp src/regard/native/*.h src/regard/native/kernels/*) constraints.txt

$(VENV)/.installed: $(SETUP) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-serve: $(SETUP) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[serve]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(SETUP) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: $(SETUP) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.installed-docs $(VENV)/.installed-serve $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
