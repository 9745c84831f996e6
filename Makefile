# Two commands are enough on a fresh machine:  make demo   and   make test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# uv installs in a fifth of pip's time, where it is there.
UV      := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check)

.PHONY: demo web test pytest soak hostile coverage lint docs bench clean

demo: $(VENV)/.installed-demo
	$(BIN)/luvli demo --out demo-output

# Side by side: mypy's first run takes half a minute of one core.
test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "not soak" --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder --durations 10

# What takes too long for `test`: trainings that must learn something, and a longer attack.
soak: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m soak
	@$(MAKE) --no-print-directory hostile INPUTS=2000 KILLS=40

# The long attack: damaged files and killed runs. A short one is part of `test`.
INPUTS ?= 10000
KILLS  ?= 200
hostile: $(VENV)/.installed-dev
	$(BIN)/python tests/hostile/fuzz.py --inputs $(INPUTS)
	$(BIN)/python tests/hostile/kills.py --kills $(KILLS)

# Names the lines that no test reaches; apart from `test`, because tracing costs half as much again.
coverage: $(VENV)/.installed-dev
	$(INSTALL) --constraint constraints.txt pytest-cov
	$(BIN)/python -m pytest -m "not soak" --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder --cov=luvli --cov-report=term-missing:skip-covered

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

# The package for browsers (web/dist) and the static demo page (site/demo); needs node.
web: $(VENV)/.installed-dev
	npm install --no-save --ignore-scripts --no-audit --no-fund --prefix web
	$(BIN)/python web/assets.py
	npm run --prefix web build
	npm run --prefix web demo

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.installed-dev
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) demo-output dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp is newer than what it was installed from, so a second run installs nothing.
# First what is locked, by the digests of its files (tools/lock.py); then the rest, which is
# PyTorch, of which each kind of machine has its own build.
$(VENV)/.installed-%: pyproject.toml constraints.txt $(wildcard locks/*.txt) | $(BIN)/python
	@echo "installing luvli[$*] into $(VENV) ..."
	@if [ -f locks/$*.txt ]; then $(INSTALL) --require-hashes --no-deps --requirement locks/$*.txt; fi
	$(INSTALL) --constraint constraints.txt --editable ".[$*]"
	@touch $@
