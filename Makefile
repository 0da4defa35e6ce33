# make demo   from a fresh clone to recommendations
# make test   linters and the whole test suite
# make test-numerics   the tests of numbers, with other threads, instructions and rounding
# make lint   formatting, style, types, layers
# make bench  speed beside peers, on this machine
# make tables the tables of README.md and docs/, made from benchmarks/reports

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
INSTALL := $(PIP) install --no-compile --constraint constraints.txt

# Packages are not compiled as they are installed, which takes long, but as they are first imported.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test pytest test-numerics lint bench tables clean
.DELETE_ON_ERROR:

demo: $(VENV)/.package
	$(BIN)/sdgar doctor
	$(BIN)/sdgar demo --out runs/demo --overwrite
	@echo "To look at it in a browser:  $(BIN)/sdgar demo --serve --overwrite"

# Linters run beside the tests: a type checker uses one core alone.
test: $(VENV)/.test
	$(MAKE) --jobs=2 lint pytest

# One thread a worker: threads of several workers on two cores only wait for each other. A third
# worker works while another one waits for a server or a browser. Triton kernels run in its
# interpreter, so no GPU is needed.
pytest: $(VENV)/.test
	OMP_NUM_THREADS=1 TRITON_INTERPRET=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test-numerics: $(VENV)/.test
	$(BIN)/python tests/numerics.py

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/cpu.py
	$(BIN)/python benchmarks/peers.py seconds
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/busy_neighbour.py

tables: $(VENV)/.package
	$(BIN)/python benchmarks/tables.py

$(VENV)/.package: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	$(INSTALL) --editable ".[plot,serve]"
	touch $@

# ir_measures asks for pytrec-eval-terrier, which has no wheel for every machine; the tests
# use its ranx backend instead, so it is installed without its own dependencies.
$(VENV)/.test: $(VENV)/.package
	$(INSTALL) --group test
	$(INSTALL) --no-deps ir_measures
	touch $@

$(VENV)/.bench: $(VENV)/.test
	$(INSTALL) --group bench
	touch $@

clean:
	rm -rf $(VENV) runs dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
