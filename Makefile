# Every target sets up what it needs. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := $(CURDIR)/.cache
TOXIPROXY_VERSION := v2.12.0
TOXIPROXY := $(CACHE)/bin/toxiproxy-server
VERSITYGW_VERSION := v1.8.0
RUNTIME := $(VENV)/.runtime-installed
COMPILED := broker/wire/_record_check
DEV := $(VENV)/.dev-installed
KAFKA_JARS := $(CACHE)/kafka/.installed
# Every file is checked against its hash. What a source distribution (PySpark) is built with is locked too: pip would
# fetch it unchecked for an isolated build, so setuptools goes in first and builds are not isolated.
LOCKED := DIST_EXTRA_CONFIG=$(CURDIR)/.ci/wheels.cfg $(BIN)/pip install --require-hashes --use-pep517 --no-build-isolation
pins = sed -n '/^$(1)==/,/[^\\]$$/p' requirements.lock
# TEST_WORKERS overrides how many tests run at once; the defaults are for two cores. The fast tests only compute. Those
# of `make test` wait for processes and time-outs almost half of their time, so two more use what two leave idle.
# The whole runs of `make test-all` judge how quiet the host was and get no third one.
workers = $(or $(TEST_WORKERS),$(1))
export HARNESS_CACHE_DIR := $(CACHE)
# Bytecode is kept, also where the environment says otherwise (images of containers do): without it each process that a
# test starts compiles what it imports, and pytest rewrites all tests anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help:  ## this list
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

$(VENV)/bin/python:
	@echo "setup: virtual environment in $(VENV)" >&2
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): pyproject.toml requirements.lock hatch_build.py $(COMPILED).c | $(VENV)/bin/python
	@echo "setup: Python packages (exact files by their hashes in requirements.lock; PySpark is the large one)" >&2
	$(LOCKED) -r <($(call pins,setuptools))
	$(LOCKED) --progress-bar on -r requirements.lock
	$(BIN)/pip install --no-deps --no-build-isolation -e .
	@test -e $(COMPILED).abi3.so \
	  || echo "setup: no C compiler or no Python headers here, the broker checks records in Python" >&2
	@touch $@

$(DEV): requirements-dev.lock $(RUNTIME)
	@echo "setup: tools for tests and checks" >&2
	$(LOCKED) --progress-bar on -r requirements.lock -r requirements-dev.lock
	@touch $@

# Without Go the embedded server takes over, so a missing Go is a notice and not an error.
$(TOXIPROXY):
	@mkdir -p $(dir $@)
	@if command -v go >/dev/null; then \
	  echo "setup: Toxiproxy $(TOXIPROXY_VERSION), built with Go" >&2; \
	  GOBIN=$(CACHE)/gobin go install github.com/Shopify/toxiproxy/v2/cmd/server@$(TOXIPROXY_VERSION) \
	    && mv $(CACHE)/gobin/server $@; \
	else echo "setup: no Go here, the embedded Toxiproxy server will be used" >&2; fi

$(KAFKA_JARS): harness/clusters/kafka/pom.xml
	@echo "setup: Apache Kafka jars by Maven" >&2
	mvn -B -ntp -q -f harness/clusters/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CACHE)/kafka/libs
	@touch $@

.PHONY: setup
setup:  ## install what `demo` needs: packages and the Toxiproxy server
	@$(MAKE) --no-print-directory -j2 $(RUNTIME) $(TOXIPROXY)

.PHONY: setup-dev
setup-dev: setup  ## install what `test`, `lint` and `bench` need as well
	@$(MAKE) --no-print-directory -j2 $(DEV) $(KAFKA_JARS)

.PHONY: sbom
sbom: | $(VENV)/bin/python  ## a bill of materials (CycloneDX) of the locked packages, in dist/
	$(BIN)/python .ci/sbom.py dist/kafka-harness.cdx.json

.PHONY: demo
demo: setup  ## run the suite `demo` on the embedded cluster; ends with the path of the HTML report
	@$(BIN)/harness run demo

.PHONY: demo-kafka
demo-kafka: setup $(KAFKA_JARS)  ## the same suite on three real Apache Kafka nodes
	@$(BIN)/harness run demo --cluster kafka --client confluent

# What needs a server or an engine of its own has a target of its own.
ELSEWHERE := not docker and not external and not redis and not connect and not store and not versions
# A file is one worker's, who keeps its cluster. tests/conftest.py has the longest files first, and gives all files that
# share a Spark session to one worker.
in_parallel = -n $(call workers,$(1)) --dist loadfile --no-loadscope-reorder --durations 12 --durations-min 10
# The longest step of `make test` took three and a half minutes beside four busy processes. What takes eight hangs
# (docs/decisions/0019-second-try.md).
hangs_after_minutes = -o timeout=480 -o faulthandler_timeout=540

.PHONY: test-fast
test-fast: setup-dev  ## every pure core, within a minute: no process, no Spark, no browser, no waiting
	TEST_AMOUNT=fast $(BIN)/python -m pytest $(call in_parallel,2) -m "$(ELSEWHERE) and not slow and not long \
	  and not thorough and not spark and not kafka and not chromium and not toxiproxy"

.PHONY: test
test: setup-dev chromium  ## all tests but those that take minutes; a missing program is a failure when CI=true
	$(BIN)/python -m tests.runner $(call in_parallel,4) $(hangs_after_minutes) -m "$(ELSEWHERE) and not long"

.PHONY: test-changed
test-changed: setup-dev chromium  ## long tests that the last change touches, and a tenth of the others, for six minutes
	$(BIN)/python -m tests.runner.changed $(call in_parallel,2) -m "$(ELSEWHERE) and long"

.PHONY: test-all
test-all: setup-dev chromium  ## for releases (an hour): `test`, all long tests, more seeds and histories
	SIM_SEEDS=1-200 EXACT_CELLS=250 TEST_AMOUNT=all $(BIN)/python -m tests.runner $(call in_parallel,2) -m "$(ELSEWHERE)"

.PHONY: prove-checker
prove-checker: setup-dev  ## 1,000 run logs with planted anomalies, 500 with holes, 1,000 random histories: all found, nothing else
	PLANTED_CASES=1000 EXACT_CELLS=1000 $(BIN)/python -m pytest -q --timeout 3600 -o faulthandler_timeout=3660 \
		tests/reports/test_reports_planted.py tests/reports/test_reports_planted_holes.py \
		tests/reports/test_reports_exactness.py

.PHONY: torture
torture: setup-dev  ## harness and workers at 50 random moments of a run: killed, stopped, full disks; all must be undone
	TORTURE_KILLS=50 $(BIN)/python -m pytest tests/harness/test_harness_torture.py tests/harness/test_harness_worker_torture.py

.PHONY: test-docker
test-docker: setup-dev  ## brokers in containers; needs an engine, builds the image (BASE_IMAGE=... without a registry)
	docker build $(if $(BASE_IMAGE),--build-arg BASE_IMAGE=$(BASE_IMAGE)) --target runtime -t kafka-harness:local \
	  -f containers/Dockerfile .
	$(BIN)/python -m pytest -m docker

.PHONY: test-versions
test-versions: setup-dev  ## clients in old versions, and upgrades of Apache Kafka; asks their registries, takes long
	$(BIN)/python -m pytest -m versions

.PHONY: test-redis
test-redis: setup-dev  ## redelivered records removed by a real Redis; installs redis-server where apt-get may
	@command -v redis-server >/dev/null || { apt-get update -qq && apt-get install -o DPkg::Lock::Timeout=300 -y -qq redis-server >/dev/null; }
	$(BIN)/python -m pytest -m redis

# s3fs needs python-dateutil 2, and the rest of us has 4: so it lies beside the environment (docs/decisions/0014-store.md).
.PHONY: test-store
test-store: setup-dev  ## run logs in a bucket of a real S3 server (versitygw, built with Go); Maven brings Spark's connector
	GOBIN=$(CACHE)/bin go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
	$(BIN)/pip install --require-hashes --no-deps -q --upgrade --target $(CACHE)/store -r requirements-store.lock
	mvn -q -B -f tests/harness/s3a/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CACHE)/s3a
	PYTHONPATH=$(CURDIR):$(CACHE)/store $(BIN)/python -m pytest -m store

.PHONY: demo-docker
demo-docker:  ## brokers, Toxiproxy, load and report in containers; ends with the report in ./runs (BASE_IMAGE=... likewise)
	@containers/demo

.PHONY: test-external
test-external: setup-dev  ## faults in front of an Apache Kafka with TLS and SASL that somebody else started
	$(BIN)/python -m pytest -m external

.PHONY: test-connect
test-connect: setup-dev  ## the analysis by a Spark Connect server, started for it
	$(BIN)/python -m pytest -m connect

.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "setup: Chromium, for the report's tests" >&2; \
	    apt-get update -qq && apt-get install -o DPkg::Lock::Timeout=300 -y -qq --no-install-recommends chromium >/dev/null; \
	  else echo "setup: no Chromium here; the report's browser tests will be skipped" >&2; fi; }

.PHONY: picture
picture: | $(VENV)/bin/python chromium  ## the front of a report as docs/images/front-page.png (RUN=runs/NAME)
	@test -f "$(RUN)/report.html" || { echo "picture: RUN=$(RUN) has no report.html; expected RUN=runs/NAME" >&2; exit 2; }
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=5000 --window-size=1280,1500 \
	  --blink-settings=preferredColorScheme=1 --screenshot=docs/images/front-page.png "file://$(abspath $(RUN))/report.html"

.PHONY: lint
lint: setup-dev  ## ruff, mypy strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/lint-imports

.PHONY: docs
docs: setup-dev  ## the documentation as a site with search, in dist/site; a dead link is an error
	$(BIN)/python .ci/docs_site.py

.PHONY: sim
sim: setup-dev  ## the simulation over 10,000 seeds (about an hour on 2 cores); goes on where it was interrupted
	$(BIN)/python -m broker.sim --seeds 1-10000 --jobs 2 --state $(CACHE)/sim/state.json

.PHONY: mutants
mutants: setup-dev  ## the simulation over every wrong variant of the broker; writes docs/reference/mutants.md
	$(BIN)/python -m broker.sim.mutation

.PHONY: mutants-real
mutants-real: setup-dev  ## wrong brokers and buggy clients under the chaos scenarios (an hour); writes docs/internals/checker.md
	$(BIN)/python -m harness.mutation brokers
	$(BIN)/python -m harness.mutation clients

.PHONY: fuzz
fuzz: setup-dev  ## a million bad frames, 100,000 damaged directories, a million extreme requests to real brokers
	$(BIN)/python -m broker.sim.fuzz --frames 1000000 --files 100000 --strict
	$(BIN)/python -m broker.sim.fuzz_peers --requests 1000000

.PHONY: compatibility
compatibility: setup-dev  ## clients, Kafka's tools, and clients' own tests beside Apache Kafka (hours); writes docs/reference/compatibility.md
	@command -v kcat >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "setup: kcat" >&2; apt-get update -qq && apt-get install -o DPkg::Lock::Timeout=300 -y -qq --no-install-recommends kcat >/dev/null; \
	  else echo "setup: no kcat here; its column will say so" >&2; fi; }
	@command -v npm >/dev/null || echo "setup: no Node.js and npm here; kafkajs's column will say so" >&2
	$(BIN)/python -m tests.compatibility --beside-kafka

SEEDS ?= 1 2 3
.PHONY: differential
differential: setup-dev  ## generated requests of every API to us and to Apache Kafka; writes docs/reference/differences.md
	$(BIN)/python -m tests.differential --seeds $(SEEDS)
	$(BIN)/python -m tests.differential --seeds $(SEEDS) --guarded

.PHONY: bench
bench: setup-dev  ## reference broker beside Apache Kafka in one run; writes benchmarks/results
	$(BIN)/python -m benchmarks.brokers

.PHONY: prove
prove: setup-dev  ## the statistics on made data of known truth: A/A, planted changes, planted effects (some minutes)
	$(BIN)/python -m tests.reports.prove

.PHONY: prove-same
prove-same: setup-dev  ## the whole path on equals (the demo's sweep too): what page and compare call different; 1.5 hours, resumable
	$(BIN)/python -m benchmarks.same

.PHONY: prove-engine
prove-engine: setup-dev  ## the engine against a real server that stalls, delays and limits by plan; writes benchmarks/results
	$(BIN)/python -m benchmarks.known_server

.PHONY: clean
clean:  ## undo faults and end processes that a crashed run left, remove build products (keeps runs/)
	-@[ ! -x $(BIN)/harness ] || $(BIN)/harness clean
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist $(COMPILED).abi3.so
