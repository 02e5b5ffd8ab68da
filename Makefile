# The commands of a clone. `make demo` is all that a new user needs; `make test lint` is what CI runs.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: demo examples test lint format up down clean help

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# The name of a stamp says what is installed, so an environment that is up to date costs nothing.
WANTED := $(shell cat pyproject.toml constraints.txt | sha256sum | cut -c1-16)
DEMO := $(VENV)/.demo-$(WANTED)
TOOLS := $(VENV)/.tools-$(WANTED)

# Everything of the demonstration lives in the clone, beside the code, unless told otherwise.
demo examples up down: export EASEML_HOME := $(or $(EASEML_HOME),$(CURDIR)/.easeml)

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: $(DEMO) ## install, start everything, submit the example tasks, watch, predict
	@$(BIN)/python -m examples.demo

examples: $(DEMO) ## train a task per template row, compare each champion with its baseline
	@$(BIN)/python -m examples.run_all $(ARGS)

up: $(DEMO) ## start the service
	@$(BIN)/easeml up

down: ## stop the service
	@if [ -x $(BIN)/easeml ]; then $(BIN)/easeml down; fi

test: $(TOOLS) ## run all tests: two files at a time, then the whole stack end to end
	$(BIN)/python -m pytest -m "not e2e" -n 2 --dist loadfile $(ARGS)
	$(BIN)/python -m pytest -m e2e $(ARGS)

lint: $(TOOLS) ## check style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(TOOLS) ## put the code into its standard form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: down ## stop the service; remove the environment and all data of the demonstration
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf $(CURDIR)/.easeml

$(DEMO):
	$(call install,s3$(comma)examples)
	@touch $@

$(TOOLS):
	$(call install,s3$(comma)examples$(comma)test$(comma)lint$(comma)plots)
	@touch $@ $(DEMO)

comma := ,
define install
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
  { echo "Python 3.11 is needed: install it, or say where it is with PYTHON=…" >&2; exit 1; }
@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
@rm -f $(VENV)/.demo-* $(VENV)/.tools-*
@echo "Installing into $(VENV) (about 7 GB; some minutes the first time) …"
@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(1)]'
endef
