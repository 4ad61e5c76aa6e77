# What can be done with this repository; `make` alone lists it. Everything runs in .venv, which is made where it is missing.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin
# Passed on to pytest or `coldnotify up`: make test ARGS="-k digest --seed 7", make up ARGS="--gateways 2".
ARGS ?=

PACKAGES := $(filter-out dist/%,$(wildcard clients/python/coldnotify */coldnotify_* services/*/coldnotify_*))
# The directories of tests, each a mypy run of its own: their modules share names.
TESTS := $(foreach dir,$(wildcard clients/python/tests */tests services/*/tests tests),$(if $(wildcard $(dir)/*.py $(dir)/*/*.py),$(dir)))
INSTALLED := .venv/.installed
# Debian packages. prometheus: with its promtool it tests the alerts and the dashboards' queries. chromium: pages in a real browser.
# haproxy, nginx-light: everything is asked through them; haproxy also checks the configuration of the balancer in
# docker-compose.yml. The last three: the load test's loops run against them, too.
TOOLS := prometheus chromium chromium-driver haproxy nginx-light nats-server mosquitto mosquitto-clients paho.mqtt.c-examples redis-server

.PHONY: help
help: ## list the verbs
	@grep -hE "^[a-z-]+:.*## " $(MAKEFILE_LIST) | grep -v "^help:" | awk -F ":.*## " "{printf \"  make %-12s %s\\n\", \$$1, \$$2}"

.PHONY: demo
demo: $(INSTALLED) ## see it work, on this machine alone
	@$(BIN)/python -m coldnotify_demo $(ARGS)

.PHONY: walkthrough
walkthrough: $(INSTALLED) ## mutual TLS step by step: certificates, clients of all kinds, refusals, who lacks what, a query, a channel
	@$(BIN)/python -m coldnotify_demo.walkthrough $(ARGS)

.PHONY: test
test: $(INSTALLED) ## all tests, against a real Kafka that they start themselves
	@$(BIN)/python -m coldnotify_testkit.suite $(ARGS)

.PHONY: check
check: $(INSTALLED) ## the tests that start neither Kafka nor other processes: in a minute
	@$(BIN)/python -m coldnotify_testkit.suite --alone=without -q -m pure --hypothesis-profile=brief $(ARGS)

.PHONY: fault
fault: $(INSTALLED) ## run the fault campaign: real processes, drawn faults, a checker; ARGS="--seeds 1-20 --seconds 90 --brokers 3"
	@$(BIN)/python -m coldnotify_fault $(ARGS)

.PHONY: drill
drill: $(INSTALLED) ## make faults and see a real Prometheus' alerts fire and clear
	@$(BIN)/python -m pytest tests/integration/test_monitoring.py -s -q -m "drill or not drill" $(ARGS)

.PHONY: simulate
simulate: $(INSTALLED) ## thousands of random schedules of the pure cores: make simulate ARGS="--seeds 1-5000"
	@$(BIN)/python -m coldnotify_simulation $(ARGS)

.PHONY: golden
golden: $(INSTALLED) ## every byte of 2,000 simulated seeds, before and after a rebuilding: ARGS="record", then ARGS="compare"
	@$(BIN)/python -m coldnotify_simulation.golden $(ARGS)

.PHONY: tools
tools: ## install what some tests use and are skipped without, as Debian packages (root, apt-get)
	@missing=""; for package in $(TOOLS); do dpkg -s $$package > /dev/null 2>&1 || missing="$$missing $$package"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then \
		echo "Not installed, needs root and apt-get:$$missing" >&2; exit 0; fi; \
	apt-get update -q && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -q --no-install-recommends $$missing

.PHONY: helm
helm: $(INSTALLED) ## build Helm with Go's tool, once for each user: tests of the chart are skipped without it
	@$(BIN)/python -m coldnotify_testkit.helm

# The words after `bench` are experiments, not verbs: make bench E1 wire.
ifeq (bench,$(firstword $(MAKECMDGOALS)))
EXPERIMENTS := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
$(eval .PHONY: $(EXPERIMENTS))
$(EXPERIMENTS):
	@:
endif

.PHONY: bench
bench: $(INSTALLED) ## load tests, beside the field's servers: make bench, make bench E1; ARGS="--quick", ARGS=--list
	@loadtest/peers/install
	@$(BIN)/python -m coldnotify_loadtest $(EXPERIMENTS) $(ARGS)

.PHONY: up
up: $(INSTALLED) ## run everything: Kafka, topics, matcher, gateway, HTTP; until Ctrl-C
	@$(BIN)/coldnotify up $(ARGS)

.PHONY: setup
setup: $(INSTALLED) ## make .venv, in it the command coldnotify
	@echo "$(BIN)/coldnotify is ready. Next:"
	@echo "  export PATH=\"\$$PWD/$(BIN):\$$PATH\""
	@echo "  coldnotify up    # Kafka and all services, on this machine; README.md goes on from here"

$(INSTALLED): pyproject.toml schemas/pyproject.toml clients/python/pyproject.toml constraints.txt
	@command -v $(PYTHON) > /dev/null || { \
		echo "ColdNotify needs Python 3.11 or later, and there is no $(PYTHON) here. Another one: make setup PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ColdNotify needs Python 3.11 or later; \
	$(PYTHON) is " + sys.version.split()[0] + ". Another one: make setup PYTHON=...")'
	@echo "Setting up .venv; the first time this takes two minutes or so, and 500 MB on disk."
	@$(PYTHON) -m venv .venv
	@# A line for every 20 packages; all that pip says is in .venv/pip.log.
	@{ PYTHONUNBUFFERED=1 $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt \
		-e schemas -e clients/python -e '.[dev]' 2>&1; echo "exit $$?"; } | { \
		count=0; code=1; \
		while read -r word rest; do \
			echo "$$word $$rest" >&3; \
			case $$word in \
				Collecting) count=$$((count + 1)); [ $$((count % 20)) != 0 ] || echo "  $$count packages found, now $$rest";; \
				Installing) [ "$${rest%% *}" != collected ] || echo "  $$count packages fetched; installing";; \
				ERROR:) echo "$$word $$rest" >&2;; \
				exit) code=$$rest;; \
			esac; \
		done; exit "$$code"; } 3> .venv/pip.log
	@touch $@

.PHONY: lint
lint: $(INSTALLED) ## style, types and directions of dependencies, all without changing anything
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PACKAGES) conftest.py
	@failed=0; for dir in $(TESTS); do echo "$(BIN)/mypy $$dir"; $(BIN)/mypy $$dir || failed=1; done; exit $$failed
	$(BIN)/lint-imports

.PHONY: fuzz
fuzz: $(INSTALLED) ## feed the decoders whatever finds new ways through them; ARGS="--seconds 60"
	@$(BIN)/python -c "import atheris" 2> /dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	@$(BIN)/python tests/fuzz/decoder.py $(ARGS)

.PHONY: fuzz-records
fuzz-records: $(INSTALLED) ## write hostile records, in batches made by hand, to all topics while everything runs; ARGS="--records 100000 --seed 1"
	@$(BIN)/python tests/fuzz/records.py $(ARGS)

.PHONY: style
style: $(INSTALLED) ## format the code, and fix what can be fixed without thinking
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: proto
proto: $(INSTALLED) ## generate the Python code of schemas/*.proto
	$(BIN)/python -m grpc_tools.protoc -I coldnotify_schemas=schemas --python_out=schemas --pyi_out=schemas schemas/wire.proto schemas/internal.proto

.PHONY: transcripts
transcripts: $(INSTALLED) ## record schemas/transcripts/: what a client does, step by step, for clients in other languages
	$(BIN)/python -m coldnotify_simulation.transcripts schemas/transcripts

.PHONY: docs
docs: $(INSTALLED) ## generate docs/settings.md, metrics.md, the protocol's numbers and Grafana's dashboards
	$(BIN)/python -m coldnotify_tools.settings_doc > docs/settings.md
	$(BIN)/python -m coldnotify_tools.metrics_doc > docs/metrics.md
	$(BIN)/python -m coldnotify_tools.dashboards monitoring/grafana/dashboards
	$(BIN)/python -m coldnotify_tools.deployed
	$(BIN)/python -m coldnotify_testkit.protocol_numbers
	$(BIN)/python -m coldnotify_tools.wire_tables
	$(BIN)/python -m coldnotify_tools.browser_tables
	$(BIN)/python -m coldnotify_tools.client_lines

.PHONY: map
map: $(INSTALLED) ## list every module with what it is for; make map | grep page
	@$(BIN)/python -m coldnotify_testkit.file_map

.PHONY: site
site: $(INSTALLED) ## make the documentation as a site that needs no network: dist/site
	@$(BIN)/python -c "import material, mkdocstrings_handlers.python" 2> /dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[site]'
	@cd clients/browser && npm ci --silent && npm run --silent build
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "dist/site/index.html"

.PHONY: screenshots
screenshots: $(INSTALLED) ## take the console's pictures in the documentation anew (chromium: make tools)
	$(BIN)/python -m coldnotify_testkit.screenshots docs/screenshots

.PHONY: pins
pins: $(INSTALLED) ## after KAFKA_VERSION was changed: fetch Kafka's jars and name each with its SHA-256
	$(BIN)/python -m coldnotify_kafka.broker.pinning

.PHONY: wheels
wheels: $(INSTALLED) ## what an observation unit installs, as wheels in dist/
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist ./schemas ./clients/python
	@ls dist/*.whl

.PHONY: clean
clean: ## remove what these verbs made: .venv, dist, caches (no data)
	rm -rf .venv dist build clients/browser/dist clients/browser/build clients/browser/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
