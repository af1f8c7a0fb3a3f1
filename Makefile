# make demo and make test do everything on a fresh machine; make check is the quick loop. make demo installs only what runs
# need; whatever tests, checks or documents adds its tools.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
# Python compiles a file when it first imports it, and most of what is installed never is. It must be let keep the result, or every
# process of the tests, and every later command, compiles all that it imports again.
unexport PYTHONDONTWRITEBYTECODE
PIP := -m pip install --quiet --disable-pip-version-check --no-compile
# Of a source tree the installation knows every file by its place: where one has come, gone or moved it is made again.
READY := $(VENV)/.ready-$(shell find src -name '*.py' | sort | cksum | cut -d' ' -f1)

TOOLS := $(VENV)/.tools
BROWSER := $(VENV)/.browser
NETWORK := $(VENV)/.network

.PHONY: install setup browser network docs demo test test-full test-flower test-oracle check format bench sanitize clean

install: $(READY)
setup: $(READY) $(TOOLS)

NATIVE := CMakeLists.txt $(wildcard src/fedloom/cpp/* src/fedloom/training/cpp/* src/fedloom/mixing/cpp/* src/fedloom/coding/cpp/*)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("FedLoom needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(READY): requirements/run.txt pyproject.toml $(NATIVE) | $(BIN)/python
	$(BIN)/python $(PIP) -r requirements/run.txt
	$(BIN)/python $(PIP) --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.ready*; touch $(READY)

$(TOOLS): requirements/lock.txt requirements/run.txt | $(READY)
	$(BIN)/python $(PIP) -r requirements/lock.txt
	@touch $(TOOLS)

# The report is tested in a real browser: Debian's Chromium and its driver. Where they are not there and cannot be installed,
# those tests are left out and say so.
browser: $(BROWSER)

$(BROWSER): | $(BIN)/python
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null; then :; \
	else \
		echo "no browser for the tests of the report, they are left out; to run them, as root:"; \
		echo "  apt-get install -y --no-install-recommends chromium chromium-driver"; \
	fi
	@touch $(BROWSER)

# Flower wants older versions of some packages, and Sionna is needed by one test alone, without its ray tracer: they get
# environments of their own, on top of the other one.
$(VENV)/oracle/.ready: OPTIONS := --no-deps
$(VENV)/flower/.ready $(VENV)/oracle/.ready: $(VENV)/%/.ready: requirements/%.txt requirements/lock.txt requirements/run.txt \
		| $(READY) $(TOOLS)
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > $(@D)/.home
	@$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		> "$$(cat $(@D)/.home)/fedloom-base.pth"
	$(@D)/bin/python $(PIP) $(OPTIONS) -r requirements/$*.txt
	@touch $@

# Deployments are tested in networks of their own, which are made with ip and tc, as root. Where these are not there and cannot be
# installed, those tests are left out and say so.
network: $(NETWORK)

$(NETWORK): | $(BROWSER)  # one apt-get at a time
	@if command -v ip >/dev/null && command -v tc >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends iproute2 >/dev/null; then :; \
	else \
		echo "no ip and tc for the tests of shaped networks, they are left out; to run them, as root:"; \
		echo "  apt-get install -y --no-install-recommends iproute2"; \
	fi
	@touch $(NETWORK)

# The site, in build/site; open build/site/index.html
docs: setup
	$(BIN)/python -m mkdocs build --strict

demo: install
	$(BIN)/fedloom demo

test:
	@$(MAKE) --no-print-directory -j 2 setup browser network
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not full"

# The adapter to Flower, against a real SuperLink on loopback
test-flower: $(VENV)/flower/.ready
	$(VENV)/flower/bin/python -m pytest tests/flower src/fedloom/flower

# Our TR 38.901 against Sionna's
test-oracle: $(VENV)/oracle/.ready
	$(VENV)/oracle/bin/python -m pytest tests/oracle

# Needs the real datasets: make test-full FEDLOOM_DATA=/where/they/are
test-full: setup browser network test-flower test-oracle
	@test -n "$(FEDLOOM_DATA)" || { echo "set FEDLOOM_DATA to the folder of the datasets, see docs/data.md"; exit 2; }
	FEDLOOM_DATA=$(FEDLOOM_DATA) $(BIN)/python -m pytest -n 2 --dist loadfile

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not full and not slow"

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/loops.py
	$(BIN)/python benchmarks/workloads.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/dry_run.py
	$(BIN)/python benchmarks/swap_search.py
	$(BIN)/python benchmarks/head_selection.py
	$(BIN)/python benchmarks/proximity.py
	$(BIN)/python benchmarks/coding.py
	$(BIN)/python benchmarks/allocation.py
	$(BIN)/python benchmarks/merges.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/deploy.py

# The native kernels under the address and undefined-behaviour sanitizers, through their tests: the installed builds are
# exchanged for the time of the run.
SANITIZED := build/sanitized
sanitize: setup
	$(BIN)/cmake -G Ninja -S . -B $(SANITIZED) -DFEDLOOM_SANITIZE=ON -DFEDLOOM_CHECKS=ON -DPython_EXECUTABLE=$(abspath $(BIN)/python) \
		-DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
	$(BIN)/cmake --build $(SANITIZED)
	@set -e; \
	home=$$($(BIN)/python -c "import os, fedloom._compiled_baseline as m; print(os.path.dirname(m.__file__))"); \
	put() { cp $$1/_compiled_*.so $$home; }; \
	mkdir -p build/plain; cp $$home/_compiled_*.so build/plain; \
	trap "put build/plain" EXIT; \
	put $(SANITIZED); \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
		UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		$(BIN)/python -m pytest -q -p no:xdist tests/training tests/mixing/test_order.py tests/coding/test_draws.py \
		-k "native or choice or dropout or order or convolution or draws"

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
