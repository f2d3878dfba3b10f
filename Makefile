# For a list of the targets run: make help

GO      ?= go
# Empty without git: rowmill then uses the version in Go's build information.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

# Time limits for the tests of one package, and for each fuzz target of `make fuzz`.
TEST_TIMEOUT ?= 15m
FUZZ_TIME    ?= 20s
# `make check` vets the code. Without symbols (-s), a test binary is linked in half the time. Tests often
# wait for locks, servers and processes: two packages are tested at a time, with four parallel tests each. With more,
# the servers spend more time on waiting for each other: eight tests of a package take a fifth more CPU time than four.
TEST_FLAGS   ?= -vet=off -ldflags=-s -p 2 -parallel 4
# The compiler and staticcheck take a quarter less CPU time if they collect garbage less often, and up to 1 GB of memory.
TOOL_GC      ?= GOGC=300
export GOFLAGS += '-toolexec=env $(TOOL_GC)'
# Packages whose goroutines share data. `make race` tests them under -race on
# SQLite only; their tests on servers run once, in `make test`, without -race.
RACE_PACKAGES ?= ./internal/bench ./internal/ingest/... ./internal/state ./internal/monitor ./internal/probe ./internal/maintain ./internal/maintain/adopt
# The packages whose speed limits the rates that rowmill can measure.
BENCH_PACKAGES ?= ./rolling/... ./internal/engine/... ./internal/workload/... ./internal/bench/... ./result/... ./internal/ingest/...

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo test nightly check gofmt vet staticcheck imports pure race bench bench-load bench-sysbench bench-serve bench-copy fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build ./rowmill (needs gcc, for the embedded SQLite)
	$(GO) build -ldflags "-X main.version=$(VERSION)" -o rowmill ./cmd/rowmill

# The systems that `make cross` and `make release` build for.
CROSS ?= linux/amd64 linux/arm64 darwin/arm64 freebsd/amd64 openbsd/amd64

.PHONY: cross
cross: ## build ./cross/rowmill-OS-ARCH for other systems, without cgo (minutes per system the first time)
	@for t in $(CROSS); do echo "$$t"; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o cross/rowmill-$${t/\//-} ./cmd/rowmill; done

.PHONY: release
release: ## make packages, archives and a container image in ./dist, the same bytes each time
	cd packaging/release && $(GO) run . -out ../../dist -systems "$$(tr ' ' , <<< '$(CROSS)')"

demo: ## install missing dependencies, build, and compare two layouts on the embedded SQLite (under 3 minutes)
	@scripts/demo.sh

# SQLite is C. With -O1, which is enough for tests, gcc compiles it in two fifths of the time.
check test vet staticcheck imports race: export CGO_CFLAGS = -O1

check: gofmt vet staticcheck imports pure race ## lint, import rules, and -race on SQLite for concurrent packages

test: ## install missing servers and the browser, and run the whole suite (10 minutes on 2 cores)
	@scripts/install.sh gcc mariadb rocksdb spider galera postgres chromium mydumper fio
	@scripts/install.sh mysql || echo 'the tests of MySQL are skipped'
	@scripts/install.sh connectors || echo 'the tests of Java and Python clients are skipped'
	$(GO) run ./internal/testservers $(GO) test -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) ./...

nightly: ## run the tests that CI omits: PART=kills|servers|race|fuzz|long, or all parts in turn
	@scripts/nightly.sh $(PART)

gofmt:
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then printf 'not formatted, run gofmt -w on:\n%s\n' "$$out" >&2; exit 1; fi

vet: gcc
	$(GO) vet ./...

staticcheck: gcc
	$(TOOL_GC) $(GO) tool staticcheck ./...

imports:
	$(GO) test -run '^TestTree' -count 1 .

# Part long of `make nightly` vets the build without cgo, and runs the SQLite part of the suite in it. Here, each package must have files
# in that build.
pure:
	@CGO_ENABLED=0 $(GO) list -deps -test ./... > /dev/null

race: gcc
	ROWMILL_TEST_KINDS=sqlite $(GO) run ./internal/testservers -kinds '' $(GO) test -race -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(RACE_PACKAGES)

.PHONY: gcc
gcc:
	@scripts/install.sh gcc

bench: ## run the Go benchmarks of the hot paths, with allocations
	$(GO) test -run '^$$' -bench . -benchmem $(BENCH_PACKAGES)

bench-load: build ## compare rowmill load with the servers' own loaders on private servers
	@scripts/bench-load.sh

bench-sysbench: build ## compare rowmill with sysbench on a private server
	@scripts/bench-sysbench.sh

bench-serve: build ## compare rowmill serve with HAProxy in TCP mode and with the server directly
	@scripts/bench-serve.sh

bench-copy: build ## compare rowmill copy with tar, netcat and pigz on loopback
	@scripts/bench-copy.sh

fuzz: gcc ## run each fuzz target for FUZZ_TIME (20s)
	@scripts/fuzz.sh $(FUZZ_TIME)

clean: ## remove the files created by build, demo and tests
	rm -rf rowmill cross dist demo coverage* *.test *.out
