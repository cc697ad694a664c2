# What each target does stands in .ci/run, which CI calls without make.
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'Variables: FUZZTIME=5s  PKG=./...  BENCH=.  COUNT=6   (make bench PKG=./wheel BENCH=Advance > new.out)'
	@echo '           OPS=100000000  HISTORIES=10000  LOADROUNDS=10000  TIME=10m  REPORT=FILE  SOAKFLAGS=-race  (make soak TIME=30m REPORT=soak.md)'

check: ## all that CI runs, in its order
	@.ci/run

test: ## go test ./... in every module
race: ## the short tests under the race detector, shuffled
cpu: ## the root's short tests on 1, 2, 8 and 32 procs
vet: ## go vet
vet-386: ## go vet and go build for 32 bits
short-386: ## go vet and the short tests for 32 bits
fuzz: ## each fuzz target for FUZZTIME
model: ## OPS random operations against the model
loads: ## a thousand callers against everything, LOADROUNDS times, under the race detector
histories: ## HISTORIES concurrent histories, are they linearizable?
soak: ## mixed load on many caches for TIME, everything audited
bench: ## micro-benchmarks COUNT times, for benchstat
bench-once: ## every benchmark once: do they still work?
quickstart: ## run examples/quickstart
lint: ## golangci-lint as .golangci.yml says
lockcheck: ## proof/lockcheck: is the user's code called under a lock?
staticcheck: ## staticcheck alone; builds faster than lint
gofmt: ## list files that gofmt -s would change
fmt: ## gofmt -s -w
tidy: ## is each go.mod tidy?
cover: ## coverage by function, cover.out for go tool cover -html

soak: export SOAKTIME = $(or $(TIME),10m)
soak: export SOAKREPORT = $(abspath $(REPORT))

test race cpu vet vet-386 short-386 fuzz model loads histories soak bench bench-once quickstart lint lockcheck staticcheck gofmt fmt tidy cover:
	@.ci/run $@

.PHONY: help check test race cpu vet vet-386 short-386 fuzz model loads histories soak bench bench-once quickstart lint lockcheck staticcheck gofmt fmt tidy cover
