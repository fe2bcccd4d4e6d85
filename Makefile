# Requires Go, make and a POSIX userland. The network is used for Go modules and, by
# `make test` as root on Debian, to install qemu-user, chromium and the Python packages of the tests.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
# Generous, because tests wait for minutes on a busy machine.
TEST := $(GO) test -timeout 30m
# Tests sync thousands of small files. They write to a file system in memory if it has 4 GB of room and may hold
# programs; what Go builds stays on the disk. TMPDIR=/tmp make test does not do so.
ifndef TMPDIR
memory := $(shell d=$$(mktemp -d /dev/shm/tacit-XXXXXX 2>/dev/null) || exit 0; \
	printf '#!/bin/sh\n' >"$$d/run" && chmod +x "$$d/run" && "$$d/run" 2>/dev/null && \
	df -Pk "$$d" | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }'; rm -rf "$$d")
ifneq ($(memory),)
export TMPDIR := $(memory)
export GOTMPDIR ?= /tmp
endif
endif
# What `tacit version` prints. A + marks a tree with uncommitted changes.
VERSION ?= dev
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)$(shell git diff --quiet HEAD -- '*.go' '*.s' 2>/dev/null || echo +)
# Where `make screens` writes its pictures.
DIR ?= screens
# How long `make fuzz` runs each fuzz target.
T ?= 60s
# The packages that build for js/wasm; the import table in internal/lint lists the same ones.
PURE := data internal/base/metrics internal/base/rng internal/base/rows internal/engine/aggregate internal/engine/local internal/pb internal/study/figure learn method methods methods/internal/blend methods/internal/closed methods/internal/factorisation methods/internal/features methods/internal/neural methods/internal/plugins methods/internal/private methods/internal/sequence param privacy privacy/account privacy/secagg vec wire
# The race detector runs on packages with goroutines. It does not watch the privacy accountant, which
# has none and would take a quarter of its time.
RACE := $(TEST) -race -short -gcflags=github.com/tacit-rec/tacit/privacy/account=-race=false
RACED := ./internal/engine/local ./internal/engine/round ./conform ./internal/engine/aggregate ./internal/base/metrics ./internal/base/rows ./privacy/secagg ./vec ./param ./internal/study/tune ./internal/rpc ./device ./internal/statefile ./mobile ./internal/study/leaderboard ./internal/study/sweep ./coordinator/internal/...
# Of slow packages, some tests run: what goroutines share in the others, they share in these as well.
RACED_COORDINATOR := -skip 'Attempt|PaidFor|DevicesThatLeave|NeverCheckIn|NotExcluded|ClippingBit|UnderMasks|FlippedBit|Copi|Restored|EveryPoint'
RACED_STORE := -run 'Goroutines|Snapshot|Counted|Wait|FailsIsWritten|Purge|Returns'
RACED_FLEET := -run 'Malicious|SurvivesRestarts|FollowRunsWith|MaskedRoundIsExact|SlowClients'
RACED_SIM := -run 'Worker|Mask|Resume|Interrupted|Looking' -skip 'WithoutNoise|LargeCohort'

say = @printf '\n== %s\n' $(1)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## build ./tacit
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o tacit ./cmd/tacit

.PHONY: install
install: ## install tacit into Go's bin folder
	CGO_ENABLED=0 $(GO) install -trimpath -ldflags '-X main.version=$(VERSION) -X main.commit=$(COMMIT)' ./cmd/tacit

# PLAY has further flags of tacit play: make demo PLAY=--no-web
.PHONY: demo
demo: build web-files ## build, and watch a federation learn on a page, offline
	./tacit play --web $(WEB) $(PLAY)

# Steps are independent, and each prints its output when it ends, so that two can run at a time: many tests wait,
# and one step alone leaves a core idle. If a step fails, no other starts. make before 4.0 runs one at a time.
STEPS := format vet unit static race fuzz-short browser arm64 purego python generated
AT_ONCE ?= 2
ifneq ($(filter output-sync,$(.FEATURES)),)
at_once := -j$(AT_ONCE) --output-sync=target
endif

.PHONY: test $(addprefix start-,$(STEPS))
test: ## everything that CI checks, two steps at a time: make test AT_ONCE=1
	@began=$$(date +%s); $(MAKE) --no-print-directory $(at_once) BEGAN=$$began $(STEPS); \
	printf '\n== all passed in %d s\n' $$(($$(date +%s) - began))

# Says when a step of `make test` starts: its output comes later.
$(addprefix start-,$(STEPS)):
	@[ -z "$(BEGAN)" ] || printf '%4d s: %s starts\n' $$(($$(date +%s) - $(or $(BEGAN),0))) '$(@:start-%=%)'
$(STEPS): %: start-%

.PHONY: format
format:
	$(call say,'format: gofumpt')
	@files=$$($(GO) tool gofumpt -l .); \
	if [ -n "$$files" ]; then printf 'not formatted; run: go tool gofumpt -w .\n%s\n' "$$files"; exit 1; fi

.PHONY: vet
vet:
	$(call say,'go vet')
	$(GO) vet ./...

.PHONY: static
static:
	$(call say,'staticcheck')
	$(GO) tool staticcheck ./...

# Debian's packages for the tests of the Python package.
PYTHON_PACKAGES := python3-pandas python3-pytest python3-build python3-setuptools python3-wheel
NOTEBOOK_PACKAGES := python3-nbclient python3-ipykernel

# Chromium renders the report pages, qemu runs programs for arm64, and Python tests its package. One step installs
# all, because apt-get cannot run twice at a time; a step without its program says so.
.PHONY: tools
tools:
	@$(python); missing=; [ -n "$$python" ] || missing="$(PYTHON_PACKAGES)"; \
	command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null || missing="$$missing chromium"; \
	[ "$$($(GO) env GOHOSTARCH)" = arm64 ] || command -v qemu-aarch64 >/dev/null || missing="$$missing qemu-user"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		(apt-get update && apt-get install -y $$missing) >/dev/null 2>&1 || true; \
	fi
	@$(python); if [ -n "$$python" ] && ! $(has_notebooks) && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		(apt-get update && apt-get install -y --no-install-recommends $(NOTEBOOK_PACKAGES)) >/dev/null 2>&1 || true; \
	fi
	@command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null || echo 'SKIPPED: rendering report pages requires Chromium (Debian package: chromium)'

.PHONY: screens
screens: tools ## pictures of report pages and of the dashboard, light, dark, phone and print, in DIR: make screens DIR=screens [RUN=runs/a]
	@mkdir -p $(DIR)
	$(GO) test ./internal/study/report -count 1 -run TestPagesInChromium -args -pages "$(abspath $(DIR))" $(if $(RUN),-folder "$(abspath $(RUN))")
	$(GO) test ./coordinator/internal/dashboard -count 1 -run TestPagesInChromium -args -pages "$(abspath $(DIR))"
	@ls $(DIR)/*.png

.PHONY: unit
unit: tools ## the unit tests alone
	$(call say,'unit tests')
	$(TEST) ./...

.PHONY: race
race: ## the race detector on the packages with goroutines
	$(call say,'race detector')
	@if [ "$$($(GO) env CGO_ENABLED)" = 1 ]; then \
		$(RACE) $(RACED); \
		$(RACE) $(RACED_COORDINATOR) ./coordinator; \
		$(RACE) $(RACED_STORE) ./internal/store; \
		$(RACE) $(RACED_FLEET) ./internal/fleet; \
		$(RACE) $(RACED_SIM) ./sim; \
		$(RACE) -run '^TestEveryMethodConforms$$/./(SameBitsForAny|TheSum)' ./methods; \
	else \
		echo 'SKIPPED: the race detector requires a C compiler'; \
	fi

# $(call fuzz,TIME) builds each package with fuzz targets once, and runs every target for TIME. Go before 1.27 may
# report its own deadline as a failure (golang/go#75804); without a failing input, it is ignored.
fuzz = @dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; cache="$$($(GO) env GOCACHE)/fuzz/tacit"; \
	grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed -E 's|/[^/]*:func | |' | sort | \
	while read -r pkg name; do \
		echo "$$pkg $$name"; program="$$dir/$${pkg//\//-}.test"; \
		[ -e "$$program" ] || $(GO) test -c -fuzz '^Fuzz' -o "$$program" "$$pkg" </dev/null; \
		if ! out=$$(cd "$$pkg" && "$$program" -test.run '^$$' -test.fuzz "^$$name$$" -test.fuzztime $(1) \
			-test.fuzzcachedir "$$cache/$$pkg" 2>&1 </dev/null); then \
			if grep -q 'context deadline exceeded' <<<"$$out" && ! grep -qE 'Failing input|panic:' <<<"$$out"; then \
				echo '  stopped at its deadline, no failing input'; \
			else \
				echo "$$out"; exit 1; \
			fi; \
		fi; \
	done

.PHONY: fuzz-short
fuzz-short:
	$(call say,'fuzz targets: 1 s each')
	$(call fuzz,1s)

.PHONY: fuzz
fuzz: ## every fuzz target for T each: make fuzz T=60s
	$(call say,'fuzz targets: $(T) each')
	$(call fuzz,$(T))

# The device for browsers: the wasm program, the npm package and the page. web/dist is what tacit serve --web serves.
WEB := web/dist
# Without inlining, packages that take little time are 90 kB smaller with gzip.
SMALLER := -gcflags='google.golang.org/protobuf/...=-l' -gcflags='encoding/json=-l'
.PHONY: web-files
web-files:
	@mkdir -p $(WEB)/device
	GOOS=js GOARCH=wasm CGO_ENABLED=0 $(GO) build -trimpath $(SMALLER) -ldflags '-s -w -X main.version=$(VERSION)' -o $(WEB)/device/tacit.wasm ./web/wasm
	@rm -f $(WEB)/device/tacit.wasm.*
	@cp "$$($(GO) env GOROOT)/lib/wasm/wasm_exec.js" web/js/index.js web/js/index.d.ts web/js/store.js web/js/worker.js $(WEB)/device/
	@cp web/page/* $(WEB)/
	@build=$$(cat $(WEB)/*.html $(WEB)/*.js $(WEB)/*.css $(WEB)/device/*.js $(WEB)/device/*.wasm | cksum | cut -d ' ' -f 1); \
	sed "s/BUILD/$$build/" web/page/sw.js > $(WEB)/sw.js

.PHONY: web
web: web-files ## build the device page in web/dist, with compressed forms (brotli requires node)
	@gzip -9 -n -k $(WEB)/device/tacit.wasm
	@if command -v node >/dev/null; then node web/compress.mjs $(WEB)/device/tacit.wasm; fi
	@ls -l $(WEB)/device/tacit.wasm* | awk '{ print $$5, $$9 }'

.PHONY: npm
npm: web-files ## pack the npm package @tacit/device, in web/dist (requires npm)
	@cp $(WEB)/device/tacit.wasm $(WEB)/device/wasm_exec.js LICENSE web/js/
	cd web/js && npm pack --silent --pack-destination ../dist

# All tests of the device in a browser, with the types of its scripts, and the accessibility of its page and of the dashboard: TypeScript and axe-core come from npm.
.PHONY: web-check
web-check: web-files ## every check of the browser's device, types and accessibility (requires npm)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; npm install --silent --no-save --prefix "$$dir" typescript axe-core >/dev/null; \
	$(TEST) ./web -count 1 -args -dist "$(abspath $(WEB))" -tsc "$$dir/node_modules/.bin/tsc" -axe "$$dir/node_modules/axe-core/axe.min.js"; \
	$(TEST) ./coordinator/internal/dashboard -count 1 -run Chromium -args -axe "$$dir/node_modules/axe-core/axe.min.js"

.PHONY: browser
browser: web-files
	$(call say,'js/wasm: the pure packages and the device')
	GOOS=js GOARCH=wasm CGO_ENABLED=0 $(GO) build -trimpath $(addprefix ./,$(PURE))
	@if command -v node >/dev/null; then \
		GOOS=js GOARCH=wasm CGO_ENABLED=0 $(TEST) -trimpath -exec "$$($(GO) env GOROOT)/lib/wasm/go_js_wasm_exec" -run SameBits ./internal/study/experiment; \
	else \
		echo 'SKIPPED: comparing bits under js/wasm requires node'; \
	fi
	GOOS=js GOARCH=wasm CGO_ENABLED=0 $(GO) vet ./web/wasm
	$(TEST) -short ./web -args -dist "$(abspath $(WEB))"

.PHONY: arm64
arm64: tools
	$(call say,'linux/arm64: the same bits')
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) build ./...
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o "$$dir/tacit" ./cmd/tacit; \
	$(TEST) -run TestNoFusedMultiplyAdd ./internal/lint -args -arm64 "$$dir/tacit"
	@qemu=; case "$$($(GO) env GOHOSTARCH)" in arm64) ;; *) \
		qemu=$$(command -v qemu-aarch64 || echo none);; esac; \
	if [ "$$qemu" = none ]; then \
		echo 'SKIPPED: arm64 requires qemu-aarch64 (Debian package: qemu-user)'; \
	else \
		GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(TEST) $${qemu:+-exec "$$qemu"} ./vec; \
		GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(TEST) $${qemu:+-exec "$$qemu"} -run SameBits ./internal/study/experiment; \
	fi

.PHONY: purego
purego:
	$(call say,'purego: without assembly')
	CGO_ENABLED=0 $(GO) build -tags purego ./...
	$(TEST) -tags purego ./vec ./internal/base/rng ./internal/engine/local
	$(TEST) -tags purego -run SameBits ./internal/study/experiment

# python sets $$python in a recipe to PYTHON, or to the first Python that has the packages of the tests; empty
# otherwise.
python = python="$(PYTHON)"; [ -n "$$python" ] || for p in python3 /usr/bin/python3; do \
	if "$$p" -c 'import pandas, pytest, build, setuptools, wheel' 2>/dev/null; then python=$$p; break; fi; done

# has_notebooks succeeds if $$python can run notebooks.
has_notebooks = "$$python" -c 'import nbclient, ipykernel' 2>/dev/null

python_program = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o python/src/tacit/bin/ ./cmd/tacit

.PHONY: wheel
wheel: ## build the Python package with the program inside, in python/dist
	@$(python); \
	if [ -z "$$python" ]; then echo 'no Python has all packages; Debian: apt-get install $(PYTHON_PACKAGES)'; exit 1; fi; \
	$(python_program); \
	rm -rf python/build python/dist; \
	"$$python" -m build --wheel --no-isolation python
	@ls python/dist/*.whl

.PHONY: python
python: tools ## test the Python package
	$(call say,'Python package')
	@$(python); \
	if [ -z "$$python" ]; then \
		echo 'SKIPPED: the Python package requires the Debian packages $(PYTHON_PACKAGES)'; \
	else \
		$(python_program); \
		$(has_notebooks) || echo 'SKIPPED: the notebook requires the Debian packages $(NOTEBOOK_PACKAGES)'; \
		cd python && "$$python" -m pytest -q -p no:cacheprovider; \
	fi

.PHONY: notebook
notebook: tools ## run the notebooks in python/notebooks again and store their outputs
	@$(python); \
	if [ -z "$$python" ] || ! $(has_notebooks); then echo 'install $(PYTHON_PACKAGES) $(NOTEBOOK_PACKAGES)'; exit 1; fi; \
	$(python_program); \
	"$$python" -Xfrozen_modules=off python/notebooks/execute.py

# Runs in vec/gen, a separate module; its output is committed.
kernels = $(GO) run . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg vec && $(GO) run ./neon > ../kernels_arm64.s

.PHONY: generate
generate: ## regenerate kernels, messages and method pages
	cd vec/gen && $(kernels)
	$(GO) run ./internal/pb/gen
	$(MAKE) build
	./tacit docs methods -o docs/methods

# Generates into a temporary folder and compares, so that other changes in the tree do not matter.
.PHONY: generated
generated: build
	$(call say,'generated files are current')
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; stale() { echo "$$1 is out of date; run: make generate"; exit 1; }; \
	if (cd vec/gen && $(GO) mod download); then \
		cp -R vec/gen "$$dir/gen"; (cd "$$dir/gen" && $(kernels)); \
		for f in kernels_amd64.s kernels_amd64.go kernels_arm64.s; do diff -u "vec/$$f" "$$dir/$$f" || stale "vec/$$f"; done; \
	else \
		echo 'SKIPPED for vec/kernels_*: the modules of vec/gen could not be downloaded'; \
	fi; \
	cp wire/tacit.proto "$$dir"; $(GO) run ./internal/pb/gen "$$dir/tacit.proto" "$$dir"; \
	diff -ru -x doc.go -x gen internal/pb "$$dir/pb" || stale internal/pb; \
	./tacit docs methods -o "$$dir/methods"; \
	diff -ru docs/methods "$$dir/methods" || stale docs/methods

.PHONY: parity
parity: build ## our numbers beside the published ones; requires the data sets
	./tacit docs parity -o docs/parity.md --picture docs/img/leak.svg

# Finished cells are stored in CELLS and not run again.
.PHONY: leaderboard
leaderboard: build ## compare all methods; requires the data sets: make leaderboard CELLS=cells MINUTES=25
	./tacit docs leaderboard --cells $(or $(CELLS),cells) --minutes $(or $(MINUTES),0) -o docs/leaderboard.md --picture docs/img/leaderboard.svg

.PHONY: bench
bench: ## every benchmark
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: clean
clean: ## remove the built program and page
	rm -rf tacit web/dist
