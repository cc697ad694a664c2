# What each target does stands in .ci/run, which CI calls without make.
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'Variables: FUZZTIME=10s  PKG=./...  BENCH=.  COUNT=6   (make bench PKG=./wheel BENCH=Advance > new.out)'

check: ## all that CI runs, in its order
	@.ci/run

test: ## go test ./... in every module
race: ## the short tests under the race detector, shuffled
cpu: ## the root's short tests on 1, 2 and 8 procs
vet: ## go vet
vet-386: ## go vet and go build for 32 bits
short-386: ## go vet and the short tests for 32 bits
fuzz: ## each fuzz target for FUZZTIME
bench: ## micro-benchmarks COUNT times, for benchstat
bench-once: ## every benchmark once: do they still work?
quickstart: ## run examples/quickstart
lint: ## golangci-lint as .golangci.yml says
staticcheck: ## staticcheck alone; builds faster than lint
gofmt: ## list files that gofmt -s would change
fmt: ## gofmt -s -w
tidy: ## is each go.mod tidy?
cover: ## coverage by function, cover.out for go tool cover -html

test race cpu vet vet-386 short-386 fuzz bench bench-once quickstart lint staticcheck gofmt fmt tidy cover:
	@.ci/run $@

.PHONY: help check test race cpu vet vet-386 short-386 fuzz bench bench-once quickstart lint staticcheck gofmt fmt tidy cover
