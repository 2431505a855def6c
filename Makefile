# Needs Python 3.11 or newer and make; every target makes its own environment in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
SOURCES := pyproject.toml constraints.txt

.PHONY: help demo test lint bench fuzz docs clean
.DELETE_ON_ERROR:

help:
	@echo "make demo   fit on the embedded recordings and print the table"
	@echo "make test   all tests"
	@echo "make lint   ruff and mypy"
	@echo "make bench  ratios against peers and the limit of the machine"
	@echo "make fuzz   damaged files for every reader, COUNT=200000 of them (make test: 2000)"
	@echo "make docs   the pages in docs/ as HTML"

$(VENV)/.base: $(SOURCES)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tensorcontrast needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.%: $(VENV)/.base
	$(PIP) install --quiet --constraint constraints.txt --editable '.[$*]'
	touch $@

demo: $(VENV)/.data
	$(BIN)/python -m tensorcontrast demo

test: $(VENV)/.data $(VENV)/.neural $(VENV)/.dask $(VENV)/.mne $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

lint: $(VENV)/.data $(VENV)/.neural $(VENV)/.dask $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.data $(VENV)/.neural $(VENV)/.dask $(VENV)/.bench $(VENV)/.dev
	$(BIN)/python -m benchmarks; status=$$?; $(BIN)/python -m benchmarks.plot && exit $$status

fuzz: $(VENV)/.data $(VENV)/.neural $(VENV)/.dev
	$(BIN)/python tests/fuzz/run.py --count $(or $(COUNT),200000)

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) docs/_build .mypy_cache .pytest_cache .ruff_cache build dist
