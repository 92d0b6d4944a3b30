# `make` lists the targets.
GO ?= go

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: run
run: ## serve the embedded model on port 8000, with per-request metrics
	$(GO) run ./cmd/troupe serve --enable-per-request-metrics

.PHONY: build
build: ## build ./bin/troupe (one file; it finds a GPU's driver if there is one)
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/troupe ./cmd/troupe

.PHONY: build-static
build-static: ## build ./bin/troupe as a static file, for systems without glibc; it serves from the CPU alone
	CGO_ENABLED=0 $(GO) build -trimpath -tags nocuda -o bin/troupe ./cmd/troupe

# PURE packages start no goroutines and share nothing: the race detector has nothing
# to find in them, and slows them tenfold.
PURE = ./chat/jinja ./chat/toolcall ./cmd/troupe/internal/config ./kernels/cpu/... ./kernels/ref ./model/gguf/... ./scheduler/...

.PHONY: test
test: ## every test, under the race detector where there are goroutines
	$(GO) test -race -tags noetcd -p 3 $$($(GO) list -tags noetcd ./... | grep -vxF "$$($(GO) list $(PURE))") # one more than small machines have cores: some packages wait for one
	$(GO) test $(PURE) ./compute/cpu
	$(GO) test ./model -run 'Quantised|Architectures'

.PHONY: check
check: ## format, vet for other platforms, generated files current, tidy modules
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'gofmt: the files above'; exit 1; }
	$(GO) mod tidy -diff
	$(GO) vet -tags e2e,faultinject ./...
	GOOS=darwin GOARCH=arm64 $(GO) build ./...
	GOOS=linux GOARCH=arm64 $(GO) build ./kernels/... ./compute/... ./model/...
	$(GO) generate ./kernels/cpu/... ./cluster/...
	git diff --exit-code -- kernels/cpu cluster

.PHONY: e2e
e2e: ## the real binary on a real port: acceptance cases and client SDKs (needs Node)
	cd e2e/clients && npm ci --no-audit --no-fund --loglevel=error
	$(GO) test -count=1 -tags e2e -timeout 15m ./e2e/...

.PHONY: bench
bench: ## the figures of docs/benchmarks.md, as ratios within one run
	$(GO) test -run '^$$' -bench . -benchmem ./actors ./http ./scheduler
	$(GO) test -run '^$$' -bench . -benchtime 1x ./internal/benchmarks

.PHONY: fuzz
fuzz: ## every fuzz target, FUZZTIME each (default 2m)
	$(GO) run ./tools/fuzzall -time $${FUZZTIME:-2m}

.PHONY: soak
soak: ## thousands of simulated runs, then mixed traffic and failures for SOAKTIME (default 10m) and a ledger that must balance
	$(GO) test -count=1 -timeout 30m -run '^TestSimulation$$' ./actors -args -seeds $${SOAKSEEDS:-2000}
	$(GO) run ./tools/soak -time $${SOAKTIME:-10m}
