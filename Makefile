# `make run` and `make test`; `make help` names the others. Each creates the environment if it is not there yet.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
KEYCONTRAST := $(BIN)/keycontrast
# Programs of an environment work only in the folder where it was made, which the stamp names. In a clone that was moved
# or copied it is made anew.
HERE := $(shell test "$$(cat $(STAMP) 2>&1)" = "$$(pwd -P)" && echo here)

# Bytecode is kept, whatever the environment says: hundreds of processes begin here, with the same imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-browser test-whole test-all nightly sample outside oldest env check docs pages clean help
ifndef HERE
.PHONY: $(STAMP)
endif

run: $(STAMP)
	@$(KEYCONTRAST) run

PYTEST := $(BIN)/python -m pytest -n logical --dist loadfile --no-loadscope-reorder
HARNESS := $(BIN)/python -m tests.harness --seed 1
# The Pythons beside which the wheel is installed at night: those of this machine.
PYTHONS ?= $(foreach version,11 12 13,$(shell python3.$(version) -c 'import sys; print(sys.executable)' 2>&-))

test: $(STAMP)
	@$(PYTEST) -m "not whole and not browser and not nightly"

test-browser: $(STAMP)
	@$(PYTEST) -m "browser and not nightly"

test-whole: $(STAMP)
	@$(PYTEST) -m "whole and not browser and not nightly"

test-all: test test-browser test-whole

nightly: $(STAMP)
	@$(PYTEST) -m nightly
	@$(HARNESS) mutate --n 4000 --minutes 4
	@$(HARNESS) kill --n 20 --minutes 15 --jobs 2
	@$(BIN)/python -m tests.outside $(PYTHONS)

# A fresh clone, killed in the middle of its run.
sample: $(STAMP)
	@$(BIN)/python -m tests.sample_run

# The wheel in an empty environment, with what it needs from the package index, and the examples of docs/python.md there.
outside: $(STAMP)
	@$(BIN)/python -m tests.outside

# The library's tests with the lowest versions that pyproject.toml allows, in an environment of their own.
OLDEST := .keycontrast/oldest
oldest: $(STAMP)
	@$(BIN)/uv venv --quiet --clear --python 3.11 $(OLDEST)
	@$(BIN)/uv pip install --quiet --python $(OLDEST)/bin/python --resolution lowest-direct --editable ".[embeddings,yake]" \
		"filelock>=3.20" "psutil>=6" "pytest>=8" "pytest-timeout>=2.3" "pyyaml>=6"
	@$(OLDEST)/bin/python -m pytest -m "not whole and not nightly" $(addprefix tests/test_,$(addsuffix .py,chinese \
		given_texts graph_statistics keycontrast_package keywords_command language_pipelines library_options picture \
		ranking_compat ranking_engine ranking_explain spacy_component))

env: $(STAMP)

check: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports
	@$(BIN)/mypy

docs: $(STAMP)
	@$(BIN)/python -m pipeline.documentation

# The documents and the tutorial as a site; what that takes is installed when it is first asked for, in seconds.
pages: $(VENV)/installed-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site/index.html; to search, too: $(BIN)/python -m http.server -d site"

$(VENV)/installed-docs: $(STAMP)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -r pyproject.toml --extra docs
	@touch $@

# PyTorch first and by pip: its CPU build is not where other installers look. uv then does the rest in
# seconds, held to the versions that are known to work together.
$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make run PYTHON=python3.11")'
	@$(PYTHON) -m venv $(if $(HERE),,--clear) $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt torch uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt --editable ".[dev]"
	@pwd -P > $@

clean:
	rm -rf $(VENV) .keycontrast artifacts site

help:
	@echo "make run    set up and run the main job (params.yaml)"
	@echo "make test   set up and run the fast tests: no network, no browser"
	@echo "make test-browser  the tests of the page in Chromium or Chrome"
	@echo "make test-whole    the tests at full size: every row of every method"
	@echo "make test-all      these three"
	@echo "make sample        a fresh clone, run with a kill in the middle"
	@echo "make outside       the wheel in an empty environment outside the clone, and its examples"
	@echo "make oldest        the library's tests with the lowest versions that pyproject.toml allows"
	@echo "make nightly       random damage, many kills, the wheel on every Python of this machine"
	@echo "make check  style, imports between packages, types"
	@echo "make docs   regenerate the generated documents"
	@echo "make pages  the documents and the tutorial as a site, in site/"
