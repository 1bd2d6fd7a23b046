# make demo          the main job on real data, in about half a minute once built
# make test          everything that must pass before a change lands
# make check         what to run while working: format, lints, unit tests
# make conformance   the official Rust, Python and Java clients, the RocksDB that
#                    clients have on our files, and a crash loop
# make bench         speed, against floor programs on the same machine
# make fmt           format the sources
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := check

export CARGO_TARGET_DIR ?= $(CURDIR)/target
# A RocksDB that was built before, if there is one beside the checkout: every shell
# reads where it is. Without, building it takes a quarter of an hour.
export BASH_ENV := $(abspath $(wildcard ../shared/prebuilt/env.sh))
BINARY := $(CARGO_TARGET_DIR)/debug/mainstem
RELEASE := $(CARGO_TARGET_DIR)/release/mainstem
STAGE := scripts/stage.sh

# The integration tests that fluss-rs ships, if the checkout has them beside it.
SUITE ?= ../shared/conformance/run-fluss-rs-suite.sh

.PHONY: demo
demo:
	scripts/setup.sh demo
	cargo build --locked --release -p mainstem-cli
	MAINSTEM_BIN='$(RELEASE)' demo/demo.sh

.PHONY: test
test:
	@$(STAGE) 'set-up' scripts/setup.sh test
	@$(STAGE) 'format' $(MAKE) --no-print-directory fmt-check
	@$(STAGE) 'lints' cargo clippy --locked --workspace --all-targets -- -D warnings
	@$(STAGE) 'unit and integration tests' cargo test --locked --workspace
	@$(STAGE) 'generated code' cargo run --locked --quiet -p xtask -- proto --check
	@$(STAGE) 'tidy' cargo run --locked --quiet -p xtask -- tidy
	@$(STAGE) 'server binary' cargo build --locked -p mainstem-cli
	@$(STAGE) 'suite of fluss-rs' $(MAKE) --no-print-directory suite
	@$(STAGE) 'official clients' conformance/run-all.sh '$(BINARY)'
	@$(STAGE) 'RocksDB files' conformance/store-files.sh '$(BINARY)'
	@$(STAGE) 'crash loop' scripts/crash-loop.sh '$(BINARY)'
	@if command -v cargo-deny >/dev/null; then $(STAGE) 'licences and bans' cargo deny check bans licenses sources; fi

.PHONY: check
check: fmt-check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo test --locked --workspace
	cargo run --locked --quiet -p xtask -- tidy

.PHONY: fmt fmt-check
fmt:
	cargo fmt --all
	cd conformance/rust && cargo fmt
fmt-check:
	cargo fmt --all --check
	cd conformance/rust && cargo fmt --check

.PHONY: conformance
conformance:
	scripts/setup.sh test
	cargo build --locked -p mainstem-cli
	conformance/run-all.sh '$(BINARY)'
	conformance/store-files.sh '$(BINARY)'
	scripts/crash-loop.sh '$(BINARY)'

.PHONY: suite
suite:
	@if [ -x '$(SUITE)' ]; then \
		'$(SUITE)' '$(BINARY)'; \
	else \
		echo 'not beside this checkout: left out'; \
	fi

.PHONY: bench
bench:
	cargo build --locked --release -p mainstem-cli
	'$(RELEASE)' bench all
