# Commands for users. Everything else is cargo's.

CARGO ?= cargo
ADDRESS ?= 127.0.0.1:8080
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))

# Page tests run in Debian's Chromium, not in a download.
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD := 1

.PHONY: help run run-cluster nats helm docs bench test test-all autobahn setup

help:
	@echo "make run          start the push server with its demo topics"
	@echo "make run-cluster  start three of them, on three NATS servers, behind HAProxy"
	@echo "make bench        measure it on this machine, next to what the machine can do at all"
	@echo "make test         run everything that CI runs"
	@echo "make helm         install Helm for the test of the chart; needs Go"
	@echo "make docs         build the documentation, which the server has at /docs, and install mdBook for it"
	@echo "make test-all     run the same for longer: more seeds, cases and faults"
	@echo "make autobahn     run Autobahn's WebSocket cases; needs Python 2.7"
	@echo
	@echo "For maintainers, and in .github/workflows:"
	@echo "make deny                      check licences, bans, sources and advisories of dependencies; needs cargo-deny"
	@echo "make msrv                      check the oldest supported Rust version; installs it with rustup"
	@echo "make semver                    compare the public crates with the newest tag; needs cargo-semver-checks"
	@echo "make workflows                 check .github/workflows with actionlint; needs Go"
	@echo "make fuzz-check                compile the fuzz targets, with any Rust"
	@echo "make fuzz-nightly              run each fuzz target for FUZZ_SECONDS; needs cargo-fuzz and a nightly Rust"
	@echo "make simulate                  run the seeded simulation for some hours"
	@echo "make dist                      build an archive, checksum and SBOM of each program for DIST_TARGET, in target/archives"
	@echo "make release-check TAG=v…      check that all files agree on the version of a tag"
	@echo "make release-dry-run TAG=v…    do all of a release but publish it"
	@echo "make release-draft TAG=v…      upload the archives to a draft; needs gh"

# Answers and numbers of the demo page survive the death of the server. Other topics stay in memory. Only one server can use a
# directory, so each address has one.
run: toolchain pages book
	$(CARGO) build --locked --release --package thalweg
	$(TARGET)/release/thalweg serve --demo --listen $(ADDRESS) \
	  --data '$(TARGET)/demo-data/$(ADDRESS)' --store 'demo/**,age=1d,bytes=64MiB' $(if $(wildcard thalweg-runs/.),--runs thalweg-runs)

# Where the tests look for it as well.
NATS_SERVER ?= $(abspath target/nats)/nats-server
NATS_VERSION = v2.15.2

# THALWEG_BIN names another program than the one that is built here.
run-cluster: nats $(if $(THALWEG_BIN),,toolchain pages)
	$(if $(THALWEG_BIN),,$(CARGO) build --locked --release --package thalweg)
	@THALWEG_BIN=$(or $(THALWEG_BIN),$(TARGET)/release/thalweg) NATS_SERVER=$(NATS_SERVER) deploy/run-cluster.sh

# Debian's is too old. It takes some minutes, once.
nats:
	@if ! test -x $(NATS_SERVER); then \
	  command -v go >/dev/null || { echo "make nats needs Go: install it from https://go.dev/dl and try again, or name a nats-server of 2.15 or newer with NATS_SERVER."; exit 1; }; \
	  echo "installing nats-server $(NATS_VERSION) into $(dir $(NATS_SERVER)) (some minutes, once)"; \
	  GOBIN=$(patsubst %/,%,$(dir $(NATS_SERVER))) go install github.com/nats-io/nats-server/v2@$(NATS_VERSION); \
	fi

# The test of the chart looks for it here and in the PATH, and is skipped without it. `make setup` does not install it, because
# that takes minutes.
HELM ?= $(abspath target/helm)/helm
HELM_VERSION = v3.18.6

helm:
	@if ! test -x $(HELM); then \
	  command -v go >/dev/null || { echo "make helm needs Go: install it from https://go.dev/dl and try again, or name a helm of 3.18 or newer with THALWEG_HELM."; exit 1; }; \
	  echo "installing helm $(HELM_VERSION) into $(dir $(HELM)) (some minutes, once)"; \
	  GOBIN=$(patsubst %/,%,$(dir $(HELM))) go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION); \
	fi

# An optimised mdBook takes three minutes of CPU to build, one without optimisation 70 s, once; it builds the book in two.
# `make test` and `make docs` install it. `make run` builds the book if mdBook is installed; otherwise the server says at
# /docs how to get it.
MDBOOK ?= $(or $(shell command -v mdbook),$(abspath target/tools)/bin/mdbook)
MDBOOK_VERSION = 0.5.4
DOCS_SOURCES = $(shell find docs book -type f -not -path 'book/dist/*' -not -path 'book/work/*')

docs: $(MDBOOK)
	@$(MAKE) --no-print-directory book

$(abspath target/tools)/bin/mdbook: | toolchain
	@echo "installing mdBook $(MDBOOK_VERSION) into target/tools (some minutes, once)"
	@$(CARGO) install --quiet --root target/tools --target-dir target/tools/build mdbook --version $(MDBOOK_VERSION) --locked \
	  --no-default-features --features search --debug --config profile.dev.debug=0
	@rm -rf target/tools/build

.PHONY: book
book:
	@if ! test -x "$(MDBOOK)"; then echo "The documentation at /docs needs mdBook: make docs installs it."; \
	elif $(HAS_NODE); then $(MAKE) --no-print-directory book/dist/index.html; \
	else echo "The documentation at /docs needs Node 20 or newer."; fi

book/dist/index.html: $(DOCS_SOURCES)
	@node book/build.mjs $(MDBOOK)

bench: toolchain
	$(CARGO) build --locked --release --package thalweg --package thalweg-lab-cli
	$(TARGET)/release/thalweg-lab bench quick

# The pages before the program, which has them in it; it is what their tests talk to.
test test-all: export THALWEG_BIN := $(TARGET)/debug/thalweg
test test-all: export THALWEG_NATS_SERVER := $(NATS_SERVER)
test test-all: export THALWEG_SKIPPED := $(TARGET)/skipped
test test-all: export THALWEG_STARTED := $(shell date +%s)
test test-all: export CARGO := $(CARGO)
# A first build is faster without the data that a next build would use.
test test-all: export CARGO_INCREMENTAL ?= $(if $(wildcard $(TARGET)/debug/incremental),1,0)
test: setup web/node_modules/.package-lock.json
	@xtask/suites.sh

# The same with many more worlds, queries, cases and faults: some hours.
test-all: export THALWEG_SIM_SEEDS ?= 50000
test-all: export THALWEG_SEEDS ?= 5000
test-all: export THALWEG_QUERIES ?= 200000
test-all: export THALWEG_FAULTS ?= 10
test-all: export THALWEG_DOCS ?= all
test-all: export PROPTEST_CASES ?= 20000
test-all: setup web/node_modules/.package-lock.json
	@xtask/suites.sh

# WebSocket conformance, against a debug build: what is right does not depend on speed.
autobahn: toolchain
	$(CARGO) build --locked --package thalweg
	@./lab/autobahn/run.sh

# The pages, which need Node; without it the program is built without them.
HAS_NODE = npm --version >/dev/null 2>&1 && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'
WEB_SOURCES = $(shell find web/package.json web/sdk web/ui -type f -not -path '*/node_modules/*' -not -path '*/dist/*')

.PHONY: pages
pages:
	@if $(HAS_NODE); then \
	  $(MAKE) --no-print-directory web/ui/dist/index.html \
	    || { echo "The pages could not be built, see above. cargo run --release -- serve --demo needs none."; exit 1; }; \
	else \
	  echo "The pages need Node 20 or newer: without it there is the server alone."; \
	fi

web/ui/dist/index.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	@cd web && npm run --silent build

web/node_modules/.package-lock.json: web/package-lock.json
	@cd web && npm ci --no-audit --no-fund
	@touch $@

.PHONY: toolchain
toolchain:
	@command -v $(CARGO) >/dev/null || { echo "Thalweg needs a Rust toolchain: install it from https://rustup.rs and try again."; exit 1; }

# The tests run curl (lines of README and docs/how-to/clients.md), a C linker, ss (kernel memory), time (another
# opinion on CPU and memory), chromium (the lab's report, the pages), Node (SDK and pages),
# and Python (its example and DuckDB, whose packages stay in target/python and target/duckdb). Behind nginx and HAProxy
# where root can install them; RUNLEVEL=1 keeps Debian from starting them as services.
setup: toolchain
	@missing=""; \
	command -v python3 >/dev/null || missing="$$missing python3"; \
	python3 -m pip --version >/dev/null 2>&1 || missing="$$missing python3-pip"; \
	command -v cc >/dev/null || missing="$$missing gcc libc6-dev"; \
	command -v curl >/dev/null || missing="$$missing curl"; \
	command -v ss >/dev/null || missing="$$missing iproute2"; \
	test -x /usr/bin/time || missing="$$missing time"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v node >/dev/null || missing="$$missing nodejs"; \
	command -v npm >/dev/null || missing="$$missing npm"; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq $$missing; \
	  else \
	    echo "make test needs these packages, please install them:$$missing"; exit 1; \
	  fi; \
	fi
	@missing=""; \
	test -x /usr/sbin/nginx || missing="$$missing nginx-light"; \
	test -x /usr/sbin/haproxy || missing="$$missing haproxy"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && RUNLEVEL=1 apt-get install -y -qq $$missing; \
	elif [ -n "$$missing" ]; then \
	  echo "Without these packages the tests that need them are skipped:$$missing"; \
	fi
	@test -x $(NATS_SERVER) || { command -v go >/dev/null && $(MAKE) --no-print-directory nats; } \
	  || echo "Without nats-server (make nats, which needs Go) the tests that need it are skipped."
	@$(HAS_NODE) || { echo "make test needs Node 20 or newer: this one is $$(node --version)."; exit 1; }
	@rustfmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
	@$(MAKE) --no-print-directory target/python/installed lab/subjects/socketio/node_modules/.package-lock.json \
	  examples/node/node_modules/.package-lock.json
	@$(MAKE) --no-print-directory target/duckdb/installed \
	  || echo "Without DuckDB for Python the tests that compare queries with it are skipped."
	@! command -v go >/dev/null || $(MAKE) --no-print-directory target/examples/mint
	@test -x "$(MDBOOK)" || $(MAKE) --no-print-directory $(MDBOOK) \
	  || echo "Without mdBook (make docs) the test of the documentation at /docs is skipped."

# The lab installs it itself on demand; here it is at hand before a test takes its time.
lab/subjects/socketio/node_modules/.package-lock.json: lab/subjects/socketio/package-lock.json
	@cd lab/subjects/socketio && npm ci --omit=dev --no-audit --no-fund
	@touch $@

# Examples of docs/how-to/tokens.md, with the libraries that they name.
examples/node/node_modules/.package-lock.json: examples/node/package-lock.json
	@cd examples/node && npm ci --no-audit --no-fund
	@touch $@

target/examples/mint: examples/go/main.go examples/go/go.mod
	@mkdir -p target/examples
	@cd examples/go && go build -o ../../$@ .

# DuckDB, whose rows of random queries must be ours.
target/duckdb/installed: crates/thalweg-query/tests/requirements.txt
	@rm -rf target/duckdb
	@PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --target target/duckdb -r $<
	@touch $@

target/python/installed: examples/python/requirements.txt
	@rm -rf target/python
	@PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --target target/python -r $< \
	  || { echo "make test needs the Python packages of $<: pip could not install them, see above."; exit 1; }
	@touch $@

# The rest is for maintainers, and for .github/workflows. A tool that takes minutes to build is not installed without a question.
.PHONY: deny msrv semver workflows fuzz-check fuzz-nightly simulate dist release-check release-dry-run release-draft

# needs PROGRAM,REMEDY: says in a sentence how to install a missing program.
needs = @command -v $(1) >/dev/null || { echo "make $@ needs $(1): $(2), and try again."; exit 1; }

deny: toolchain
	$(call needs,cargo-deny,run cargo install cargo-deny --locked)
	$(CARGO) deny --locked check bans licenses sources
	@$(CARGO) deny --locked check advisories || { echo "make $@ reads the advisories from github.com: if it cannot be reached, all but them is checked."; exit 1; }

MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# In its own folder, because each compiler would build everything again.
msrv:
	$(call needs,rustup,install it from https://rustup.rs)
	@rustup toolchain list | grep -q '^$(MSRV)-' || rustup toolchain install $(MSRV) --profile minimal
	rustup run $(MSRV) cargo check --locked --workspace --target-dir $(TARGET)/msrv

# The release to compare with.
SEMVER_BASELINE ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)

semver: toolchain
	$(if $(SEMVER_BASELINE),$(call needs,cargo-semver-checks,run cargo install cargo-semver-checks --locked))
	$(if $(SEMVER_BASELINE),$(CARGO) semver-checks --baseline-rev $(SEMVER_BASELINE) -p thalweg-wire -p thalweg-client,\
	  @echo "There is no tag, and so no release to compare with: name a commit with SEMVER_BASELINE.")

ACTIONLINT_VERSION = v1.7.12

workflows:
	$(call needs,go,install it from https://go.dev/dl)
	@test -x target/tools/bin/actionlint \
	  || GOBIN=$(abspath target/tools/bin) go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
	target/tools/bin/actionlint

# In a folder of its own, because the crates are compiled once more with `cfg(fuzzing)`.
fuzz-check: toolchain
	RUSTFLAGS="--cfg fuzzing" $(CARGO) check --locked --manifest-path fuzz/Cargo.toml --bins --target-dir $(TARGET)/fuzz

fuzz-nightly: toolchain
	$(call needs,cargo-fuzz,run cargo install cargo-fuzz)
	@cargo +nightly --version >/dev/null 2>&1 || { echo "make $@ needs a nightly Rust: run rustup toolchain install nightly, and try again."; exit 1; }
	@fuzz/nightly.sh

simulate: export THALWEG_SIM_SEEDS ?= 50000
simulate: toolchain
	$(CARGO) test --locked --package thalweg-core --test it simulation

DIST_TARGET ?= $(shell rustc -vV | sed -n 's/^host: //p')

DIST_PROGRAMS ?= thalweg thalweg-lab

dist: toolchain pages docs
	@deploy/release.sh archive $(DIST_TARGET) $(DIST_PROGRAMS)

release-check:
	@deploy/release.sh check $(TAG)

release-dry-run: release-check
	@$(MAKE) --no-print-directory dist
	@deploy/release.sh packages

# The one target that changes anything elsewhere, and nobody sees a draft but the maintainers.
release-draft: release-check
	$(call needs,gh,install it from https://cli.github.com)
	gh release create $(TAG) --draft --verify-tag --title $(TAG) --notes "See CHANGELOG.md." $(wildcard target/archives/thalweg-$(TAG)-* target/archives/thalweg-lab-$(TAG)-*)
