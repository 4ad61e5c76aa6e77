.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help
help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.venv/.installed: pyproject.toml schemas/pyproject.toml clients/python/pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ColdNotify needs Python >= 3.11; this is " + sys.version)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e schemas -e clients/python -e '.[dev]'
	touch $@

.PHONY: setup
setup: .venv/.installed ## make .venv with the command coldnotify in it

.PHONY: proto
proto: setup ## generate the Python code of schemas/*.proto
	$(BIN)/python -m grpc_tools.protoc -I coldnotify_schemas=schemas --python_out=schemas --pyi_out=schemas schemas/wire.proto schemas/internal.proto
