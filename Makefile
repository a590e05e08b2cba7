# A thin front for the CMake build; `make help` lists what there is.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_SECONDS ?= 60

.PHONY: all run demo quick check soak fuzz lint coverage canaries bench install format clean setup help
all: ## Build build/pawl, build/libpawl.a and build/libpawl.so (the default)
	@scripts/setup.sh build
	@test -e build/build.ninja || cmake --preset release
	@cmake --build build --target product --parallel $(JOBS)

run: all ## Build, then start the server with a demo: says where to look and what to type
	@scripts/run.sh

demo: all ## Build, then show the same demo in the terminal, without a server
	@scripts/demo.sh

quick: ## The quick tests (under 2 minutes)
	@scripts/check.sh quick

check: ## All tests, also under ASan, UBSan and TSan (15 to 20 minutes)
	@scripts/check.sh check

soak: ## The long forms of the tests
	@scripts/check.sh soak

fuzz: ## Run each fuzzer for FUZZ_SECONDS (60)
	@FUZZ_SECONDS='$(FUZZ_SECONDS)' scripts/check.sh fuzz

lint: ## Look for bugs without running anything: clang-tidy (part of `make check`) and cppcheck
	@scripts/setup.sh check
	@scripts/lint.sh

coverage: ## See what the tests reach of src/core and src/store, and write docs/coverage.md
	@scripts/coverage.sh

canaries: ## Switch on each seeded bug, see the tests find it, and write docs/canaries.md
	@scripts/canaries.sh

bench: all ## Measure beside raw SQLite and installed peers, and write the tables to docs/benchmarks.md
	@cmake --build build --target raw_sqlite peer_beanstalk http_load
	@scripts/bench.py --out docs/benchmarks.md

install: all ## Install below PREFIX (/usr/local), staged under DESTDIR if set
	@cmake --preset release -DCMAKE_INSTALL_PREFIX='$(PREFIX)' >/dev/null
	@cmake --build build --target product --parallel $(JOBS)
	@DESTDIR='$(DESTDIR)' cmake --install build

format: ## Format all C files
	@scripts/format.sh

clean: ## Remove everything that was built
	@rm -rf build

setup: ## Install what building and testing need (apt-get)
	@scripts/setup.sh check

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
