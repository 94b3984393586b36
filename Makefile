# make demo: OSAFL and its baselines on video requests.   make test: lint, types and the whole test suite.
# make docs: the documentation as a site in build/site; a dead link fails.
# All create .venv on first use; later calls reuse it until pyproject.toml or constraints.txt change.

PYTHON ?= python3
# of the tests: one more than CI has cores, since those with a federation, a cluster or a browser mostly wait
PROCESSES ?= 3
BIN := .venv/bin
# a hundred processes of the tests would each compile all sources for themselves
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check install bench docs clean
.DEFAULT_GOAL := demo

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: install
	$(BIN)/fedcell run --scenario video

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest -n $(PROCESSES) --dist loadgroup --no-loadscope-reorder --max-worker-restart 0 -m 'not alone'
	$(BIN)/python -m pytest -m alone tests/sweeps

docs: install
	$(BIN)/python docs/site.py build/site
	@echo "open build/site/index.html"

bench: install
	$(BIN)/python benchmarks/engine.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
