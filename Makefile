# Needs Python 3.11 or newer and make; every target makes its own environment in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
SOURCES := pyproject.toml constraints.txt
# Fast, and at the borders to NumPy, SciPy, scikit-learn and typer.
LOWEST_TESTS := tests/cp tests/tensorize tests/models tests/utils tests/test_layers.py tests/test_packages.py tests/cli/test_cli_program.py

.PHONY: help demo test test-lowest coverage lint bench fuzz docs dist sbom size clean
.DELETE_ON_ERROR:

help:
	@echo "make demo   fit on the embedded recordings and print the table"
	@echo "make test   all tests"
	@echo "make coverage  branches of io/, readers/ and cp/ that tests reach; at least 95 % each"
	@echo "make test-lowest  the quick tests with the oldest versions that are allowed"
	@echo "make lint   ruff and mypy"
	@echo "make bench  ratios against peers and the limit of the machine"
	@echo "make fuzz   damaged files for every reader, COUNT=200000 of them (make test: 1400)"
	@echo "make docs   the pages in docs/ as HTML"
	@echo "make dist   wheel and source archive in dist/, checked"
	@echo "make size   megabytes of an installation without extras"
	@echo "make sbom   list of all packages of an installation, dist/sbom.cdx.json"

$(VENV)/.base: $(SOURCES)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tensorcontrast needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.%: $(VENV)/.base
	$(PIP) install --quiet --constraint constraints.txt --editable '.[$*]'
	touch $@

demo: $(VENV)/.data $(VENV)/.label
	$(BIN)/python -m tensorcontrast demo
	@echo "To label these recordings yourself, in a browser: $(BIN)/tensorcontrast label watch"

test: $(VENV)/.data $(VENV)/.neural $(VENV)/.dask $(VENV)/.mne $(VENV)/.label $(VENV)/.onnx $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

coverage: $(VENV)/.data $(VENV)/.neural $(VENV)/.dask $(VENV)/.dev
	$(BIN)/python -m coverage run -m pytest -q tests/io tests/readers tests/cp tests/fuzz/test_found.py tests/recordings/test_recordings.py
	@status=0; for folder in io readers cp; do \
	  $(BIN)/python -m coverage report --include="src/tensorcontrast/$$folder/*" || status=1; \
	done; exit $$status

test-lowest: $(VENV)-lowest/.base
	$(VENV)-lowest/bin/python -m pytest -q -p no:cacheprovider $(LOWEST_TESTS)

$(VENV)-lowest/.base: pyproject.toml constraints-lowest.txt
	test -x $(VENV)-lowest/bin/python || $(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints-lowest.txt --editable . pytest pytest-xdist hypothesis pandas tensorly
	touch $@

lint: $(VENV)/.data $(VENV)/.neural $(VENV)/.dask $(VENV)/.label $(VENV)/.onnx $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.data $(VENV)/.neural $(VENV)/.dask $(VENV)/.bench $(VENV)/.dev
	$(BIN)/python -m benchmarks; status=$$?; $(BIN)/python -m benchmarks.plot && exit $$status

fuzz: $(VENV)/.data $(VENV)/.neural $(VENV)/.dev
	$(BIN)/python tests/fuzz/run.py --count $(or $(COUNT),200000)

docs: $(VENV)/.data $(VENV)/.mne $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

dist: $(VENV)-release/.base
	rm -rf dist
	$(VENV)-release/bin/python -m build --outdir dist .
	$(VENV)-release/bin/python -m twine check --strict dist/*.whl dist/*.tar.gz
	$(VENV)-release/bin/python tests/check_packages.py dist

sbom: $(VENV)-release/.base
	rm -rf $(VENV)-sbom && $(PYTHON) -m venv $(VENV)-sbom && mkdir -p dist
	$(VENV)-sbom/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt .
	$(VENV)-sbom/bin/python -m pip uninstall --quiet --yes pip setuptools
	$(VENV)-release/bin/cyclonedx-py environment --output-reproducible --output-file dist/sbom.cdx.json $(VENV)-sbom/bin/python

size:
	rm -rf $(VENV)-size && $(PYTHON) -m venv --without-pip $(VENV)-size
	$(PYTHON) -m pip --disable-pip-version-check --python $(VENV)-size/bin/python install --quiet --no-compile --constraint constraints.txt .
	du -sm $(VENV)-size/lib/python3*/site-packages

$(VENV)-release/.base:
	test -x $(VENV)-release/bin/python || $(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/python -m pip --disable-pip-version-check install --quiet build twine cyclonedx-bom
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-release $(VENV)-sbom $(VENV)-size docs/_build docs/gallery .mypy_cache .pytest_cache .ruff_cache build dist
