# make demo   runs the tutorial on parallelism; results and diagrams go to build/demo/
# make test   lint, types, tests (what runs on the CPU also in the emulator and through NVRTC), notebooks
# make lab    opens JupyterLab on notebooks/
# Each creates .venv with what it needs first. `make demo PYTHON=python3.12` picks an interpreter.

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
BIN := $(VENV)/bin

.PHONY: demo test lint types unit notebooks lab clean

demo: $(VENV)/.set-up-test
	$(BIN)/python scripts/demo.py notebooks/03_parallelism.ipynb build/demo

test: lint types unit notebooks

lint: $(VENV)/.set-up-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.set-up-test
	$(BIN)/mypy

unit: $(VENV)/.set-up-test
	$(BIN)/python -m pytest -q -n 2 --programs-also emulate,cubin

notebooks: $(VENV)/.set-up-test
	$(BIN)/python -m pytest -q --nbval notebooks --nbval-sanitize-with notebooks/sanitize.cfg

lab: $(VENV)/.set-up-test $(VENV)/.set-up-lab
	$(BIN)/jupyter lab --notebook-dir notebooks

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "croq_magic needs Python 3.11, 3.12 or 3.13; none was found." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot create virtual environments." \
	  "On Debian and Ubuntu: sudo apt-get install -y python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The second step gives a machine without a C++ compiler one from PyPI.
$(VENV)/.set-up-test: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@for c in "$$CXX" c++ g++ clang++; do test -n "$$c" && command -v $$c >/dev/null && exit 0; done; \
	  echo "No C++ compiler found: installing one (ziglang) into $(VENV)."; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[compiler]'
	@touch $@

$(VENV)/.set-up-lab: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[lab,explore]'
	@touch $@
