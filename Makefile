# Every target does the set-up it needs by itself: see tools/setup.sh.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test test-quick conformance coverage check lint format bench docs site-check release release-check interop simulate soak crash crash-spark stalls compat simulate-mutants way sanitize bare clean

# Without its caches Python compiles rstreams anew in each process that the tests start.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
SPARK := JAVA_HOME="$(CURDIR)/.venv/java" PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python"
QUICK := not (spark or broker or soak or slow)
# As many processes as there are cores, four at most; the one that is through takes tests from the others.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' Makefile | expand -t 20

setup: ## install all that the other targets need
	@tools/setup.sh dev docs java

demo: ## a year of weather observations through AMQP links and a Spark job, each accounted for
	@tools/setup.sh demo java
	$(SPARK) $(BIN)/python -m examples.airports

test: ## all tests but those marked broker or soak
	@tools/setup.sh dev java
	@echo "tests: all but those marked broker or soak, 15 to 25 minutes on two cores"
	$(SPARK) $(PYTEST) -m "not (broker or soak)"

test-quick: ## the tests that need no Java and little time
	@tools/setup.sh dev
	@echo "tests: those that need no Java and little time, about a minute and a half on two cores, more on a busy machine"
	RSTREAMS_EXAMPLES=quick $(PYTEST) -m "$(QUICK)"

conformance: ## the Reactive Streams rules, over every source, operator, sink and link
	@tools/setup.sh dev
	$(BIN)/python -m pytest -q -r fE -p pytest_rstreams --conformance-list tests/conformance/not_applicable.txt tests/conformance

coverage: ## the quick tests, measured
	@tools/setup.sh dev
	@echo "tests: the quick ones, measured, a few minutes on two cores"
	$(PYTEST) -m "$(QUICK)" --cov --cov-report=
	$(BIN)/python -m coverage report --include "rstreams/protocol/*" --fail-under 100
	$(BIN)/python -m coverage report --fail-under 95

check: lint test-quick ## what must be green before a push: `make lint`, then `make test-quick`

lint: ## format, lint, types, layers and generated files
	@tools/setup.sh dev
	@echo "lint: format, lint, types, layers and generated files, about a minute"
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/circles.py
	$(BIN)/python tools/class_names.py
	$(BIN)/python tools/fluent.py --check
	$(BIN)/python tools/operator_pages.py --check
	$(BIN)/python tools/reference_page.py --check

format: ## write the code the way `make lint` wants it
	@tools/setup.sh dev
	$(BIN)/python tools/fluent.py
	$(BIN)/python tools/operator_pages.py
	$(BIN)/python tools/reference_page.py
	$(BIN)/python tools/counter_tables.py
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: ## measure against others; build/bench/*.json
	@tools/setup.sh dev bench java
	mkdir -p build/bench
	$(BIN)/python -m benchmarks.users --json build/bench/users.json --plot build/bench/users.svg
	$(BIN)/python -m benchmarks.core --json build/bench/core.json
	$(BIN)/python -m benchmarks.network --json build/bench/network.json --plot build/bench/network.png
	$(BIN)/python -m benchmarks.bound --json build/bench/bound.json
	$(BIN)/python -m benchmarks.codec --json build/bench/codec.json
	$(BIN)/python -m benchmarks.asyncio --json build/bench/asyncio.json
	$(BIN)/python -m benchmarks.node --json build/bench/node.json
	$(BIN)/python -m benchmarks.spark --json build/bench/spark.json

interop: ## against real AMQP peers: rhea, RabbitMQ, ...; installs them under build/interop, as root
	@tools/setup.sh dev
	$(BIN)/python tools/interop/run.py

SECONDS ?= 60
soak: ## publishers and consumers through a network that fails at random, for SECONDS=60; their history is judged; build/soak/soak.json
	@tools/setup.sh dev
	$(BIN)/python -m tests.soak.run --seconds $(SECONDS) --json build/soak/soak.json

SPARK_WORKLOAD := adapters.spark.tests.simulation.spool:workload
simulate: SEEDS ?= 200
simulate: ## simulated systems with faults, SEEDS=200 of each workload; the first 200 twice; each history judged
	@tools/setup.sh dev
	$(BIN)/python -m rstreams.simulation --workload all,$(SPARK_WORKLOAD) --seeds $(SEEDS) --twice 200 --json build/simulate/simulate.json

KILLS ?= 300
crash: ## a node with durable queues, killed at random KILLS=300 times; its history is judged; build/crash/crash.json
	@tools/setup.sh dev
	$(BIN)/python -m tests.crash.run --kills $(KILLS) --json build/crash/crash.json

RUNS ?= 100
SEED ?= 0
MODE ?= queue
crash-spark: ## Spark queries through faults at each step of a batch, RUNS=100 SEED=0 MODE=queue, or log; their histories are judged
	@tools/setup.sh dev java
	@echo "crash-spark: about ten seconds a run, more on a busy machine; the figures go to build/crash-spark.json"
	$(SPARK) $(BIN)/python -m adapters.spark.tests.crash.run --mode $(MODE) --runs $(RUNS) --seed $(SEED)

STALLS ?=
stalls: ## twelve staged stalls: each side and an alert must name the culprit; STALLS='"slow handler"'; build/stalls/stalls.json
	@tools/setup.sh dev java
	@echo "stalls: about a minute and a half on two cores"
	$(SPARK) $(BIN)/python -m tests.stalls.run --json build/stalls/stalls.json $(STALLS)

CASES ?=
compat: ## the last release against this tree: clients, nodes, stores, checkpoints; CASES="queues store"; build/compat/compat.json
	@tools/setup.sh dev java
	@echo "compat: builds the last release once, then about two minutes, and some more with Spark"
	$(BIN)/python -m tests.compat.run $(CASES)

MESSAGES ?= 20000
SINCE ?= HEAD
way: ## the calls, files and classes of one item, of a request and of an acceptance, and the lines of code SINCE=HEAD; build/way/way.json
	@tools/setup.sh dev
	$(BIN)/python tools/way.py --since $(SINCE)

sanitize: ## differential and fuzz tests of the C under gcc's sanitizers for addresses and undefined behaviour; MESSAGES=20000
	@tools/setup.sh dev
	@echo "sanitize: about five minutes on two cores"
	MESSAGES=$(MESSAGES) tools/sanitize.sh

bare: ## the README's commands on bare Debians, as root: SUITES="trixie" USERS="plain" TARGETS="demo test"
	@tools/bare.sh

simulate-mutants: SEEDS ?= 1000
simulate-mutants: ## planted faults of the product, which the simulation must find: MUTANTS="03 17" SEEDS=1000; build/simulate/mutants.json
	@tools/setup.sh dev
	$(BIN)/python -m tests.mutants.run $(MUTANTS) --seeds $(SEEDS)

docs: ## the documentation as a site, in build/docs
	@tools/setup.sh docs
	@echo "docs: about half a minute"
	PYTHONPATH=tools $(BIN)/zensical build --clean --strict
	$(BIN)/python tools/site_texts.py
	@echo "docs: the first page is $(CURDIR)/build/docs/index.html"

site-check: docs ## the built site in Debian's Chromium: no page cut at 1,280 and 390 pixels, no dead link, search finds its words
	@tools/setup.sh chromium
	@echo "site-check: about two minutes"
	$(BIN)/python tools/site_check.py

release: ## sdists, wheels, and all that pip needs to install them without an index and a compiler; into dist/
	@tools/setup.sh dev release
	@echo "release: about four minutes"
	$(BIN)/python tools/release.py

release-check: ## install dist/wheelhouse in Debians without a compiler, as root, and run the README's program: SUITES="trixie"
	@tools/release_check.sh

clean: ## remove what was built and cached; .venv stays
	rm -rf build dist .cache .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache spark-warehouse
	find . -name __pycache__ -not -path "./.venv/*" -prune -exec rm -rf {} +
