# Every target sets up what it needs in a local .venv and is quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup setup-extra demo picture docs test test-all notebooks lint bench vectors lock clean

setup: $(READY)

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "turngraph needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (about a minute the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Chromium (Debian package) for the pages, and the npm package that the interoperation test opens our transcripts with.
setup-extra: $(READY)
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }
	@command -v npm >/dev/null && npm install --no-save --silent @mariozechner/pi-coding-agent || echo "npm is absent: the Pi test will be skipped"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check playwright axe-playwright-python

demo: $(READY)
	@$(BIN)/turngraph demo --out demo-out

# The picture at the top of the README; needs `make setup-extra`.
picture: $(READY)
	@$(BIN)/python examples/make_picture.py docs/report.png

# The pages in docs/ that are made from the program.
docs: $(READY)
	@$(BIN)/python -m tests.reference --write

test: $(READY)
	@$(BIN)/python -m pytest -n 2

test-all: $(READY)
	@$(BIN)/python -m pytest -n 2 -m ""

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --explicit-package-bases tests benchmarks
	@$(BIN)/lint-imports --no-cache

notebooks: $(READY)
	@for notebook in notebooks/*.ipynb; do test -e "$$notebook" || { echo "no notebooks yet"; break; }; $(BIN)/python -m nbconvert --to notebook --execute --output-dir .notebooks-out "$$notebook" || exit 1; done

bench: $(READY)
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python -m benchmarks.$$(basename $$script .py) || exit 1; done

vectors: $(READY)
	@for file in ../shared/vectors/sessions.json ../shared/vectors/context.json ../shared/vectors/memory.json ../shared/vectors/compaction.json ../shared/vectors/scheduling.json; do echo "== $$file"; $(BIN)/python -m tests.vectors $$file || exit 1; done

# Resolve the dependency ranges of pyproject.toml again, for every platform and Python from 3.11 on.
lock: $(READY)
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --extra view --extra otel --extra notebooks pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache demo-out .notebooks-out
