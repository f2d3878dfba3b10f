# Targets and what they do: make help

GO      ?= go
# Empty without git: rowmill then takes its version from Go's build information.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

# How long one package's tests may take, and each fuzz target of `make fuzz`.
TEST_TIMEOUT ?= 15m
FUZZ_TIME    ?= 20s
# Tests wait more than they compute: for locks, servers and processes. Packages
# are tested two at a time, eight tests of each side by side.
TEST_FLAGS   ?= -p 2 -parallel 8
# Where goroutines meet. They are tested under -race on SQLite only: the
# servers' part of them runs once, without.
RACE_PACKAGES ?= ./bench ./ingest/... ./state ./monitor ./probe ./maintain/...
# The packages whose speed bounds what rowmill can measure.
BENCH_PACKAGES ?= ./rolling/... ./engine/... ./workload/... ./bench/... ./result/... ./ingest/...

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo test nightly check gofmt vet staticcheck imports pure race bench bench-sysbench fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build ./rowmill (needs gcc, for the embedded SQLite)
	$(GO) build -ldflags "-X main.version=$(VERSION)" -o rowmill ./cmd/rowmill

# Where `make cross` builds for.
CROSS ?= linux/amd64 linux/arm64 darwin/arm64 openbsd/amd64

.PHONY: cross
cross: ## build ./cross/rowmill-OS-ARCH for other systems, without cgo (the first time takes minutes for each)
	@for t in $(CROSS); do echo "$$t"; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o cross/rowmill-$${t/\//-} ./cmd/rowmill; done

demo: ## install what is missing, build, and compare two layouts on the embedded SQLite (under 3 minutes)
	@scripts/demo.sh

check: gofmt vet staticcheck imports pure race ## lint, import rule, the build without cgo, and -race on SQLite where goroutines meet

test: ## install the servers and the browser that are missing, and run the whole suite (10 minutes on 2 cores)
	@scripts/install.sh gcc mariadb rocksdb postgres chromium
	@scripts/install.sh mysql || echo 'the tests of MySQL are skipped'
	$(GO) run ./internal/testservers $(GO) test -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) ./...

nightly: ## run what CI leaves out: PART=kills|servers|race|fuzz|long, or all of them in turn
	@scripts/nightly.sh $(PART)

gofmt:
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then printf 'not formatted, run gofmt -w on:\n%s\n' "$$out" >&2; exit 1; fi

vet: gcc
	$(GO) vet ./...

staticcheck: gcc
	$(GO) tool staticcheck ./...

imports:
	$(GO) test -run '^TestTree' -count 1 .

# The whole suite on SQLite without cgo is in nightly's part long.
pure:
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 ROWMILL_TEST_KINDS=sqlite $(GO) test -timeout $(TEST_TIMEOUT) ./engine/sqlite

race: gcc
	ROWMILL_TEST_KINDS=sqlite $(GO) run ./internal/testservers -kinds '' $(GO) test -race -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(RACE_PACKAGES)

.PHONY: gcc
gcc:
	@scripts/install.sh gcc

bench: ## run the Go benchmarks of the hot paths, with allocations
	$(GO) test -run '^$$' -bench . -benchmem $(BENCH_PACKAGES)

bench-sysbench: build ## compare rowmill with sysbench on a private server
	@scripts/bench-sysbench.sh

fuzz: gcc ## run each fuzz target for FUZZ_TIME (20s)
	@scripts/fuzz.sh $(FUZZ_TIME)

clean: ## remove what build, demo and tests leave behind
	rm -rf rowmill cross demo coverage* *.test *.out
