# SPDX-License-Identifier: MIT OR Apache-2.0
# make demo, make test: the two commands. make help lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PATH := $(CURDIR)/.venv/bin:$(PATH)
export PATH
JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
# Where it is set (container images do), every worker compiles all tests, and every command all of toposeat.
unexport PYTHONDONTWRITEBYTECODE
# Warnings of the compiler are errors in CI (.ci/run): whoever uses it has another compiler.
WERROR ?= OFF
# Used where it is installed, never needed.
ifneq ($(shell command -v ccache),)
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
# What another folder compiled, as a fresh clone of CI is one, is found too.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
endif
CLOCKED := tools/clocked.sh
# Beside its folders, what a native test is made of.
OF_EACH := CMakePresets.json cmake '*CMakeLists.txt' 'tests/*.c' 'tests/*.h'
# Files with such tests: pytest reads all that it is given, and that takes longer than to find them.
OF_MPI = $$(grep -rlwE --include='test_*.py' 'mpi|debian_openmpi' tests)
NATIVE := $(shell git ls-files '*.c' '*.cpp' '*.h' '*.hpp' ':!third_party' 2>/dev/null)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: setup-demo setup-test setup-lint setup-bench setup-docs setup-release
setup-demo setup-test setup-lint setup-bench setup-docs setup-release: setup-%:
	@$(CLOCKED) 'setup for $*' tools/setup.sh $*

.PHONY: build
build: ## build the package (core, bindings, interposer, launcher) and install it into .venv
	@mkdir -p build
	@$(CLOCKED) build flock build/.lock pip install --quiet --disable-pip-version-check --no-build-isolation \
	  --no-deps --config-settings build-dir=build/wheel --config-settings cmake.define.TOPOSEAT_WERROR=$(WERROR) --editable .

.PHONY: demo
demo: setup-demo build ## the whole path on this machine, no GPU needed (V=1: with all tables)
	@toposeat demo -f $(if $(V),-v)
	@echo 'To type these commands here: source .venv/bin/activate'

.PHONY: test
test: setup-test build native-test python-test ## all tests

.PHONY: python-test
python-test: setup-test build
	@$(CLOCKED) 'tests without an MPI' python -m pytest -q -n $(JOBS) --maxprocesses 8 --dist worksteal -m 'not (mpi or alone or cluster or deep)'
	@$(CLOCKED) 'tests with an MPI' python -m pytest -q -n $$((2 * $(JOBS))) --maxprocesses 4 --dist loadfile -m 'mpi and not (alone or cluster or deep)' $(OF_MPI)
	@$(CLOCKED) 'tests that run alone' python -m pytest -q -m 'alone and not (cluster or deep)' $$(grep -rl --include='*.py' pytest.mark.alone tests)
	@$(CLOCKED) 'tests on four nodes' python -m pytest -q -n $$(($(JOBS) + 1)) --maxprocesses 3 --dist loadfile -m 'cluster and not (alone or deep)' tests/cluster

.PHONY: native-test
native-test: setup-test ## native tests under sanitizers, unless they passed on the same sources (FORCE=1)
	@tools/unless_passed.sh sanitizers $(OF_EACH) core interposer reorder launcher devcopy emulator virtual third_party \
	  -- $(MAKE) --no-print-directory sanitizers WERROR=$(WERROR)
	@tools/unless_passed.sh thread-sanitizer $(OF_EACH) interposer launcher \
	  -- $(MAKE) --no-print-directory thread-sanitizer WERROR=$(WERROR)

.PHONY: sanitizers
sanitizers:
	@cmake --preset sanitizers --log-level=WARNING -D TOPOSEAT_WERROR=$(WERROR)
	@$(CLOCKED) 'build with sanitizers' cmake --build --preset sanitizers
	@$(CLOCKED) 'tests with sanitizers' ctest --preset sanitizers -j $(JOBS) --output-on-failure

.PHONY: thread-sanitizer
thread-sanitizer:
	@cmake --preset thread-sanitizer --log-level=WARNING -D TOPOSEAT_WERROR=$(WERROR)
	@$(CLOCKED) 'build with the thread sanitizer' cmake --build --preset thread-sanitizer
	@$(CLOCKED) 'tests with the thread sanitizer' ctest --preset thread-sanitizer --output-on-failure

.PHONY: gpu-test
gpu-test: setup-test build ## on a node with GPUs: devcopy's scenarios on its driver, and where the stand-in answers otherwise
	@cmake --preset dev --log-level=WARNING -D TOPOSEAT_WERROR=$(WERROR)
	@cmake --build --preset dev --target toposeat_devcopy_tests
	@env -u TOPOSEAT_DEVCOPY_MACHINE build/dev/devcopy/toposeat_devcopy_tests
	@python -m benchmarks.driver_conformance

.PHONY: lint
lint: setup-lint build ## everything that reads the code without running it
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint-python lint-native

.PHONY: lint-python
lint-python:
	@ruff check .
	@ruff format --check .
	@$(CLOCKED) mypy tools/mypy.sh
	@lint-imports
	@python tools/core_layers.py
	@python tools/lines.py
	@codespell $$(git ls-files)

.PHONY: python
python: setup-lint setup-test build lint-python python-test ## after a change of Python only: its lint, its tests, no native ones

.PHONY: lint-native
lint-native:
	@clang-format --dry-run --Werror $(NATIVE)
	@$(CLOCKED) clang-tidy python tools/tidy.py --jobs $(JOBS)

.PHONY: lint-deep
lint-deep: setup-lint setup-test build ## what is too slow for every commit: before an issue is called resolved
	@python tools/tidy.py --deep --jobs $(JOBS)
	@FORCE=1 $(MAKE) --no-print-directory native-test
	@cmake --preset release --log-level=WARNING -D TOPOSEAT_WERROR=$(WERROR)
	@cmake --build --preset release
	@ctest --preset release -j $(JOBS) --output-on-failure
	@build/release/core/toposeat_fuzz_solve 100000 100000
	@tools/libfuzzer.sh 200000
	@TOPOSEAT_TEST_HOSTILE=20000 python -m pytest -q tests/interposer/test_hostile_environment.py
	@TOPOSEAT_TEST_RANDOM=1 python -m pytest -q -n $(JOBS) --dist worksteal -m 'not (mpi or alone or cluster)'
	@python -m pytest -q -n $(JOBS) --maxprocesses 4 --dist loadfile -m 'mpi and deep and not (alone or cluster)'
	@python -m pytest -q -m 'deep and (alone or cluster)'

.PHONY: format
format: setup-lint ## rewrite files the way lint wants them
	@ruff check --fix-only .
	@ruff format .
	@clang-format -i $(NATIVE)

.PHONY: bench
bench: setup-bench build ## print the tables of benchmarks/, the long ones in short
	@for each in benchmarks/bench_*.py; do python -m benchmarks.$$(basename $$each .py); done
	@python -m benchmarks.papers
	@python -m benchmarks.mapping.node
	@python -m benchmarks.mapping.qaplib --quick
	@python -m benchmarks.mapping.scale --quick

.PHONY: peers
peers: setup-test build ## other projects' MPI test suites, bare and under toposeat: each difference (an hour)
	@python -m benchmarks.peers

.PHONY: papers
papers: ## rewrite the papers of docs/explanation/evidence.md: published figures beside ours
	@python -m benchmarks.papers --page docs/explanation/evidence.md

.PHONY: field
field: ## rewrite the field of docs/explanation/evidence.md: published comparisons beside our predictions (needs ../shared)
	@python -m benchmarks.field --page docs/explanation/evidence.md

.PHONY: emulated-gains
emulated-gains: setup-bench build ## rewrite the clock of docs/explanation/evidence.md: 16 ranks on emulated GPUs
	@python -m benchmarks.emulated_gain --page docs/explanation/evidence.md

.PHONY: docs
docs: setup-docs build ## build/site: the documentation, strict about links, without the network
	@rm -rf build/site
	@sphinx-build --fail-on-warning --keep-going --quiet -b html -d build/site-cache docs build/site
	@echo 'Next: open build/site/index.html'

.PHONY: release
release: setup-release build ## build/dist: sdist, wheels, C parts, recipe, list of parts, digests; RELEASE='--machines x86_64' for less
	@python tools/generate_reference.py --check
	@python tools/release.py $(RELEASE)

FRESH ?= bookworm trixie
.PHONY: fresh
fresh: ## make demo and make test of HEAD in an empty Debian 12 and 13 (as root); FRESH=bookworm for one
	@tools/fresh.sh $(FRESH)

.PHONY: release-check
release-check: ## install what is in build/dist into an empty Debian, and try it there (as root)
	@tools/release_check.sh

.PHONY: lock
lock: setup-release ## write packaging/lock anew: the newest versions that the package index has
	@tools/lock.sh

.PHONY: clean
clean: ## remove what was built, keep .venv
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
