# Each target is one line that calls cargo or a script; CI calls the same targets.
.DEFAULT_GOAL := help
# Where cargo builds.
BUILT := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help generate build sandbox test test-quick lint fmt image chart-lint chart-template update-pricing control-plane conformance cross-check bench bench-resident bench-solve bench-what-if bench-instructions fuzz chart-golden chaos soak

IMAGE ?= karpenter-provider-rackspace-spot:dev
PLATFORMS ?= linux/amd64
HELM := tests/controlplane/helm

help: ## what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the operator's release binary, in target/release
	KARPENTER_COMMIT=$$(git describe --always --dirty --abbrev=7 --exclude='*' 2>/dev/null) cargo build --release --locked --bin karpenter-provider-rackspace-spot

generate: ## writes what is generated: CRDs, their copies in the charts, docs/reference (CI checks with --check)
	cargo xtask generate

sandbox: ## the main job, watched: pods become servers and go away again (SUMMARY=file KEEP=1 PODS=n)
	cargo run --quiet --locked -p sandbox -- demo $(if $(SUMMARY),--summary $(SUMMARY)) $(if $(KEEP),--keep) $(if $(PODS),--pods $(PODS))

test: ## every test, also those on the real control plane (needs Go 1.26, or KUBEBUILDER_ASSETS)
	tests/run

test-quick: ## the tests that need only Rust
	tests/run quick

lint: ## formatting and clippy, warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

fmt: ## formats the sources
	cargo fmt --all

image: ## the container image, with docker buildx (IMAGE=name:tag PLATFORMS=linux/amd64,linux/arm64)
	docker buildx build --platform $(PLATFORMS) --tag $(IMAGE) .

chart-lint: ## helm lint
	$(HELM) lint --strict charts/karpenter-crd
	$(HELM) lint --strict charts/karpenter --set spot.cloudspaceName=my-cloudspace --set spot.existingSecret=karpenter-spot

chart-template: ## what the chart renders to
	$(HELM) template karpenter charts/karpenter --namespace karpenter --set spot.cloudspaceName=my-cloudspace --set spot.existingSecret=karpenter-spot

chart-golden: ## writes what the documented installs render to, which a test compares (tests/data/chart)
	GOLDEN=write cargo test --locked --test cp_chart the_documented_installs

update-pricing: ## brings the built-in prices up to date from the public feed (FROM=file or address)
	cargo xtask update-pricing $(if $(FROM),--from $(FROM))

control-plane: ## builds the real control plane and helm from Go modules, outside the repository
	tests/controlplane/build

conformance: ## recorded answers held against ours; VECTORS=DIR runs another folder of the same shape
	VECTORS=$(VECTORS) cargo test --locked --test conformance -- --nocapture

cross-check: ## the solver's plans taken to the real kube-scheduler; SEEDS=A..B runs other cases
	SEEDS=$(SEEDS) cargo test --locked --test cp_cross_check -- --nocapture

bench: ## measures intake and snapshots of a large cluster, the solver, and the memory of the release binary
	cargo bench --locked --bench cluster
	cargo bench --locked --bench innermost
	$(MAKE) bench-solve
	$(MAKE) bench-what-if
	$(MAKE) bench-resident

# Only the binary that is measured has to be a release; the worlds around it are built like tests.
bench-resident: build ## the resident memory of the release binary with 500 nodes and 15,000 pods; OPERATOR=FILE measures another
	OPERATOR=$(or $(OPERATOR),$(BUILT)/release/karpenter-provider-rackspace-spot) cargo bench --profile dev --locked --bench resident

bench-solve: ## measures the solver; JSON=FILE writes one object a line
	JSON=$(JSON) cargo bench --locked --bench solve

bench-what-if: ## measures disruption's questions about clusters of 200 and 2,000 machines
	cargo bench --locked --bench what_if

bench-instructions: ## counts the instructions of two fixed solves and compares them with what is recorded (needs valgrind)
	benches/instructions/run

fuzz: ## fuzzes what strangers write, each target for 60 s (FUZZ_SECONDS=n TARGETS="quantity cron"; needs a C++ compiler)
	fuzz/run $(TARGETS)

chaos: ## the operator through bad days by seed, on a paused clock (SEEDS=1..500 THREADS=n VERBOSE=1; TWICE=1: does each replay to the same log)
	cargo run --quiet --locked --profile simulation -p sandbox -- chaos --seeds $(or $(SEEDS),1..500) $(if $(THREADS),--threads $(THREADS)) $(if $(VERBOSE),--verbose) $(if $(TWICE),--twice)

soak: ## thirty simulated days in one run: memory, metric series and queues must level off (DAYS=n)
	SOAK_DAYS=$(or $(DAYS),30) cargo test --locked --profile simulation -p sandbox --test soak -- --nocapture
