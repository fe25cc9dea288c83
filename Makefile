# One word for each thing to do. `make` alone lists them.
#
# Only Go, make and git have to be there; `make test` brings the rest itself on
# Debian and Ubuntu, and says what to install elsewhere.

GO          ?= go
FUZZTIME    ?= 10s
TESTFLAGS   ?=
BENCHFLAGS  ?=
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
VALE        := github.com/vale-cli/vale/v3/cmd/vale@v3.22.0

# The library consists of modules, so that an application gets the dependencies of those that it uses. In the
# workspace of cmd/weir, which has all of these modules, $(ALL) are their packages. ./... never descends into other
# modules.
LIBRARY := . ginlimit echolimit echolimit/v5 connectlimit grpclimit core/pgstore core/pgstore/internal/pgtests core/redisstore core/redisstore/internal/sim core/rules core/inspect core/observe/otel core/observe/prometheus core/internal/frameworks
ALL     := github.com/weir-go/weir/...
WORK    := GOWORK=$(CURDIR)/cmd/weir/go.work
OTHERS  := $(wildcard _examples _benchmarks)
MODULES := $(OTHERS) .ci/browser
each     = @set -e; echo "$(1) $(ALL)"; $(WORK) $(1) $(ALL); for module in $(MODULES); do echo "$(1) ./... ($$module)"; (cd $$module && $(1) ./...); done

export GO

.PHONY: help
help: ## list what there is to do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Each package with goroutines or shared state is tested with the race detector. It makes code five to thirty times
# slower, so a test that calls testkit.WithoutRace is skipped there, and runs without it: MARKED finds the names of these
# tests, and MARKEDIN the directories of their packages. For a call outside of a test, MARKED is no pattern.
# The race detector needs cgo, which Go switches off by itself where it has seen no C compiler.
MARKEDIN = $$(grep -rl --include='*_test.go' 'testkit\.WithoutRace(' $(TREES) | sed 's,/[^/]*$$,,' | sort -u | grep -v -E '$(PATTERN)')
MARKED   = $$(grep -rl --include='*_test.go' 'testkit\.WithoutRace(' $(TREES) | xargs awk '/^func / { test = $$2; sub(/\(.*/, "", test) } \
	/testkit\.WithoutRace\(/ { name = "^" test "$$"; if (test !~ /^Test/) name = "(no test calls WithoutRace in " FILENAME; \
	if (match($$0, /"[^"]+"/)) name = name "/^" substr($$0, RSTART + 1, RLENGTH - 2) "$$"; print name }' | sort -u | paste -s -d '|')
TREES   := ./cmd ./connectlimit ./core ./echolimit ./ginlimit ./grpclimit ./internal ./keyfunc ./nethttplimit

# A pattern for the packages with little or no shared state (of the adapters, nethttplimit runs the suite with the race
# detector), and for the simulation, whose runs are ten times as many without it; and commands that list these packages
# and all others.
PATTERN := /(ginlimit|echolimit|echolimit/v5|connectlimit|core/driver|core/storetest|core/internal/(calendar|keyhash)|core/rules/internal/document|core/redisstore/internal/(wire|sim.*)|cmd/weir|cmd/weir/internal/(playground/.*|simulate|trace)|core/storetest/internal/oracle|core/internal/frameworks|internal/(argument|similar))$$
PLAIN    = $$($(WORK) $(GO) list $(ALL) | grep -E '$(PATTERN)')
RACED    = $$($(WORK) $(GO) list $(ALL) | grep -v -E '$(PATTERN)')

# The packages that take the longest come first, so that the others run beside them.
LONGEST := ./core/redisstore ./core/rules ./core/failover ./core/lease

# The garbage collector takes a part of the time of tests, and of compilers and linkers. A program with the race detector
# sleeps before it ends, by default for a second.
test: export GOGC = 400
test: export GORACE = atexit_sleep_ms=50

.PHONY: test
test: deps ## run every test on a real Redis, with the race detector where there are goroutines
	@echo "$(GO) test -race -vet=off -p 3 $(TESTFLAGS) RACED"; \
	$(WORK) CGO_ENABLED=1 WEIR_REQUIRE_REDIS=1 WEIR_REQUIRE_POSTGRES=1 $(GO) test -race -vet=off -p 3 $(TESTFLAGS) $(LONGEST) $(RACED)
	@marked="$(MARKED)" && test -n "$$marked" || exit 1; export $(WORK) WEIR_REQUIRE_REDIS=1; \
	echo "$(GO) test -vet=off $(TESTFLAGS) PLAIN; WEIR_MARKED=1 $(GO) test -vet=off -p 2 $(TESTFLAGS) -run MARKED"; \
	$(GO) test -vet=off -p 1 $(TESTFLAGS) ./core/redisstore/internal/sim $(PLAIN) & plain=$$!; \
	WEIR_MARKED=1 $(GO) test -vet=off -p 2 $(TESTFLAGS) -run "$$marked" $(LONGEST) $(MARKEDIN); failed=$$?; \
	wait $$plain && exit $$failed
	@set -e; for module in $(OTHERS); do \
		echo "$(GO) test $(TESTFLAGS) ./... ($$module)"; \
		(cd $$module && WEIR_REQUIRE_REDIS=1 $(GO) test -vet=off -p 4 $(TESTFLAGS) ./...); \
	done

.PHONY: quick
quick: ## run the fast tests that need no server, without the race detector
	$(WORK) $(GO) test -short -vet=off $(TESTFLAGS) $(ALL) ./.ci/mutants

# The statements of the library that a test of any package runs. Marked tests are skipped: they repeat the others with
# more values, or count allocations, which the counters change. The workflow has a job for this, beside .ci/run.
COVERED = $$($(WORK) $(GO) list $(ALL) | grep -v -E '/(cmd/weir.*|internal/(testkit|apptest|frameworks|servertest|sim.*|stacks|pgtests.*)|storetest.*|redistest|gatetest)$$')
COVERAGE ?=
.PHONY: coverage
coverage: deps ## measure the coverage of the library, and compare it with .ci/coverage (COVERAGE=-write changes that)
	@echo "$(GO) test -vet=off -p 3 $(TESTFLAGS) -coverprofile=coverage.out"; \
	$(WORK) WEIR_REQUIRE_REDIS=1 WEIR_REQUIRE_POSTGRES=1 $(GO) test -vet=off -p 3 $(TESTFLAGS) -coverprofile=coverage.out \
		-coverpkg=$$(echo $(COVERED) | tr ' ' ,) $(COVERED) github.com/weir-go/weir/core/redisstore/internal/stacks github.com/weir-go/weir/core/pgstore/internal/pgtests >tests.out || { cat tests.out; exit 1; }
	$(GO) run ./.ci/coverage $(COVERAGE) coverage.out

# PATHFLAGS=-v prints their names, too.
PATHFLAGS ?=
.PHONY: path
path: deps ## count the functions and files that a warm request runs, in memory and in Redis (.ci/path)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(WORK) GOCOVERDIR=$$dir $(GO) run -cover -covermode=atomic -coverpkg=$(ALL) ./.ci/path $(PATHFLAGS)

.PHONY: race
race: deps ## hunt for races: the library's tests three times, in random order
	$(WORK) CGO_ENABLED=1 WEIR_REQUIRE_REDIS=1 $(GO) test -race -shuffle=on -count=3 $(TESTFLAGS) $(ALL)

# SHORT=1 runs the tests in which servers differ, on those of Debian's newer suites. WEIR_REDIS_SERVER names another server.
.PHONY: servers
servers: deps ## download Redis and Valkey of newer suites of Debian, and run the tests with a server on each
	@[ -n "$$WEIR_REDIS_SERVER" ] || [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || ! command -v apt-get >/dev/null || ADD=debian-archive-keyring sh -c "$$DEPS"
	@SHORT=$(SHORT) .ci/servers $(TESTFLAGS)

# WEIR_POSTGRES_BIN names the folder of another Postgres, and WEIR_PGBOUNCER another PgBouncer.
.PHONY: postgres
postgres: deps ## download Postgres and PgBouncer of three suites of Debian, and run all tests of pgstore on each
	@[ -n "$$WEIR_POSTGRES_BIN" ] || [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || ! command -v apt-get >/dev/null || ADD=debian-archive-keyring sh -c "$$DEPS"
	@.ci/postgres $(TESTFLAGS)

.PHONY: lint
lint: gofmt vet staticcheck prose ## gofmt, go vet and staticcheck in every module, and the wording of comments

.PHONY: gofmt
gofmt:
	@bad=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	if [ -n "$$bad" ]; then echo "not formatted, run gofmt -w on:"; echo "$$bad"; exit 1; fi

.PHONY: vet
vet:
	$(call each,$(GO) vet)

.PHONY: staticcheck
staticcheck:
	$(call each,$(GO) run $(STATICCHECK))

.PHONY: workflows
workflows: ## check the GitHub workflows
	$(GO) run $(ACTIONLINT)

# Vale contains parsers in C, which are not optimized here, because that takes longer than to run them.
.PHONY: prose
prose: deps ## check the wording of comments and documents (core/GLOSSARY.md, .ci/vale)
	CGO_ENABLED=1 CGO_CFLAGS="-O0 -g0" $(GO) run $(VALE) --config .ci/vale/vale.ini --output line .

# The packages of which no test or few tests need Redis. The others are vetted and built only.
# The builds are not optimized, which takes a third less time. Windows builds all. The other systems build the command,
# with most of the library, and each package of which they leave out a file: frameworks and exporters take as long again.
NOREDIS := ./cmd/weir ./core/rules/... ./keyfunc ./nethttplimit ./ginlimit ./echolimit ./echolimit/v5 ./connectlimit ./grpclimit ./core ./core/driver ./core/storetest ./core/memstore ./core/gate ./core/gate/adapter ./internal/argument ./core/internal/call ./core/internal/memo ./core/internal/routes ./core/internal/frameworks ./internal/sampler ./core/load ./core/observe

.PHONY: portable
portable: ## vet and test for 32 bits, and build for other systems
	$(WORK) CGO_ENABLED=0 GOARCH=386 $(GO) vet $(ALL)
	$(WORK) CGO_ENABLED=0 GOARCH=386 $(GO) test -vet=off $(TESTFLAGS) $(NOREDIS)
	@set -e; export $(WORK) CGO_ENABLED=0; for target in windows/amd64 darwin/arm64 freebsd/amd64 js/wasm; do \
		export GOOS=$${target%/*} GOARCH=$${target#*/}; packages="$(ALL)"; \
		[ $$GOOS = windows ] || packages="./cmd/weir/... $$($(GO) list -f '{{if .IgnoredGoFiles}}{{.ImportPath}}{{end}}' $(ALL) | xargs)"; \
		echo "$(GO) build $$packages ($$target)"; $(GO) build -gcflags='all=-N -l' $$packages; \
	done

.PHONY: fuzz
fuzz: deps ## run every fuzz target for FUZZTIME (10s)
	@set -e; binary=$$(mktemp); trap 'rm -f "$$binary"' EXIT; cache=$$($(GO) env GOCACHE)/fuzz/weir; \
	packages=$$(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -r -n 1 dirname | sort -u); \
	[ -n "$$packages" ] || { echo "no fuzz targets found"; exit 1; }; \
	for package in $$packages; do \
		$(WORK) $(GO) test -c -vet=off -fuzz . -o "$$binary" "$$package"; \
		(cd "$$package" && for target in $$("$$binary" -test.list '^Fuzz'); do \
			echo "fuzz $$target in $$package for $(FUZZTIME)"; \
			WEIR_REQUIRE_REDIS=1 "$$binary" -test.run '^$$' -test.fuzz "^$$target$$" -test.fuzztime $(FUZZTIME) \
				-test.fuzzcachedir "$$cache/$$package"; \
		done); \
	done

# MUTANTSFLAGS=-faults puts known faults back, some with Redis, and takes three minutes; the rest takes an hour. .ci/mutants has the flags.
.PHONY: mutants
mutants: ## change one place of the library at a time, and print the changes that no test notices
	$(GO) run ./.ci/mutants $(MUTANTSFLAGS)

# SIMFLAGS are flags of the test, such as -scenario and -seed. With EXACT=1, a seed makes the same run each time, bit for
# bit, which needs a changed runtime and takes a minute.
SIMTIME  ?= 45s
SIMFLAGS ?=
.PHONY: sim
sim: ## simulate processes that share a Redis over a faulty network, for SIMTIME (45s)
	$(WORK) $(if $(EXACT),$(GO) run ./.ci/exact $(SIMFLAGS),$(GO) test -count=1 -timeout 0 -v \
		-run '^TestSim$$' ./core/redisstore/internal/sim -time $(SIMTIME) -seed $$(date +%Y%m%d)0000 $(SIMFLAGS))

.PHONY: sim-mutants
sim-mutants: ## change one place of the library at a time, and print the changes that the simulation does not notice
	$(GO) run ./.ci/mutants -simulated

# 4000 histories of 250 calls are a million; on Redis that takes some minutes.
HISTORIES ?= 4000
.PHONY: histories
histories: deps ## compare a million random calls on each store with the definitions (HISTORIES of 250 calls)
	$(WORK) WEIR_HISTORIES=$(HISTORIES) WEIR_REQUIRE_REDIS=1 $(GO) test -count=1 -v -timeout 60m -run '^TestConformance$$/Histories' ./core/memstore ./core/redisstore

.PHONY: bench
bench: deps ## measure this library beside its peers, and print the tables
	@if [ ! -d _benchmarks ]; then echo "no _benchmarks here"; exit 0; fi; \
	cd _benchmarks && WEIR_REQUIRE_REDIS=1 $(GO) test . -run '^$$' -bench . -timeout 60m $(BENCHFLAGS)

# The cells of README.md that matter most: some delays, 64 and 400 callers, three rounds.
.PHONY: network
network: deps ## measure decisions over a network in two minutes, and print figures.csv in parentheses
	cd _benchmarks && WEIR_REQUIRE_REDIS=1 $(GO) test . -run '^$$' -bench Network -quick -beside figures.csv $(BENCHFLAGS)

# This takes an hour. The machine has to be quiet: the figures replace those of _benchmarks/figures.csv.
.PHONY: figures
figures: deps ## measure all, and write the tables of _benchmarks/README.md and the charts
	rm -f _benchmarks/new.csv
	$(MAKE) bench BENCHFLAGS=-figures=new.csv
	mv _benchmarks/new.csv _benchmarks/figures.csv
	$(MAKE) charts

.PHONY: charts
charts: ## write these tables and charts again, from _benchmarks/figures.csv
	cd _benchmarks && $(GO) run ./charts

# CHAOSFLAGS=-long takes some minutes and tries a Cluster too; _benchmarks/CHAOS.md has its tables.
.PHONY: chaos
chaos: deps ## break what an application under load stands on, and see what its users notice
	cd _benchmarks && $(GO) run ./chaos $(CHAOSFLAGS)

.PHONY: examples
examples: deps ## vet and test the example programs
	@if [ ! -d _examples ]; then echo "no _examples here"; exit 0; fi; \
	cd _examples && $(GO) vet ./... && WEIR_REQUIRE_REDIS=1 $(GO) test $(TESTFLAGS) ./...

# The tests of pages start a Chromium of their own. PICTURES is the directory for new pictures of the
# documentation, such as $(CURDIR)/docs/pictures.
.PHONY: browser
browser: deps ## install Chromium if it is missing, and test the pages in it
	@command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || ADD="chromium fonts-dejavu-core" sh -c "$$DEPS"
	cd .ci/browser && WEIR_REQUIRE_REDIS=1 $(GO) test $(TESTFLAGS) ./... $(if $(PICTURES),-pictures $(PICTURES))

.PHONY: playground
playground: ## write the page of weir playground as files for any server of files, into playground/
	$(GO) run -C cmd/weir ./internal/playground/static $(CURDIR)/playground

# go.mod has the lowest versions. newest.mod is a copy with the newest versions of direct dependencies.
NEWEST := -modfile=newest.mod
DIRECT := {{if not (or .Main .Indirect .Replace)}}{{.Path}}@latest{{end}}
.PHONY: versions
versions: deps ## test with the lowest versions of dependencies, which go.mod has, and with the newest
	@set -e; for module in $(LIBRARY); do (cd $$module; \
		echo "the lowest versions ($$module)"; WEIR_REQUIRE_REDIS=1 $(GO) test $(TESTFLAGS) ./...; \
		trap 'rm -f newest.mod newest.sum' EXIT; cp go.mod newest.mod; cp go.sum newest.sum; \
		echo "the newest versions ($$module)"; $(GO) get $(NEWEST) $$($(GO) list -m -f '$(DIRECT)' all); \
		$(GO) mod tidy $(NEWEST); WEIR_REQUIRE_REDIS=1 $(GO) test $(NEWEST) $(TESTFLAGS) ./...); \
	done

# This needs vuln.go.dev.
.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities in every module
	$(call each,$(GO) run $(GOVULNCHECK))

.PHONY: release
release: ## check that VERSION (v0.1.0) can be released, and print the commands that tag it
	@.ci/release $(VERSION)

# This needs a published version. It takes GNU tar and sed.
.PHONY: binaries
binaries: ## build the command of the published VERSION for six systems, with licences, components and checksums
	@.ci/binaries $(VERSION)

.PHONY: weight
weight: ## build three applications outside of the tree, and print what they download and weigh
	.ci/weight

.PHONY: tidy
tidy: ## check that every go.mod and go.sum is as go mod tidy would have it
	@set -e; for module in $(LIBRARY) $(MODULES); do echo "$(GO) mod tidy -diff ($$module)"; (cd $$module && $(GO) mod tidy -diff); done
	.ci/tidy -diff

.PHONY: deps
deps: ## install redis-server, Postgres and a C compiler if they are missing (apt-get)
	@sh -c "$$DEPS"

# A compiler without the C library's headers is of no use, so it is tried.
define DEPS
set -eu
missing=$${ADD:-}
command -v "$${WEIR_REDIS_SERVER:-redis-server}" >/dev/null 2>&1 || missing="$$missing redis-server"
ls $${WEIR_POSTGRES_BIN:-/usr/lib/postgresql/*/bin}/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || missing="$$missing postgresql"
echo '#include <stdlib.h>' | $$($$GO env CC) -fsyntax-only -x c - >/dev/null 2>&1 || missing="$$missing gcc libc6-dev"
if command -v apt-get >/dev/null 2>&1 && [ ! -e /etc/ssl/certs/ca-certificates.crt ]; then
	missing="$$missing ca-certificates" # for the downloads of go itself
fi
[ -n "$$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
	cat >&2 <<-'END'
	The tests need redis-server, the programs of Postgres and a C compiler in PATH. Install them with one of
	    brew install redis postgresql && xcode-select --install
	    dnf install redis postgresql-server gcc glibc-devel
	    apk add redis postgresql gcc musl-dev
	and run make again.
	END
	exit 1
fi

sudo=
if [ "$$(id -u)" != 0 ]; then
	sudo=sudo
	if ! command -v sudo >/dev/null 2>&1; then
		echo "Run as root: apt-get install --no-install-recommends $$missing" >&2
		exit 1
	fi
fi
echo "installing with apt-get: $$missing"
$$sudo sh -c "$$INSTALL" install $$missing </dev/null
endef
export DEPS

# The tests start servers of their own, so the packages must not start one: while
# apt-get runs, policy-rc.d forbids it, and afterwards everything is as it was. A
# machine that forbids it already keeps its own policy-rc.d throughout. Nor does the
# package of Postgres make a cluster, unless the machine configures clusters.
define INSTALL
set -eu
policy=/usr/sbin/policy-rc.d
answer=0
[ ! -x $$policy ] || $$policy redis-server start >/dev/null 2>&1 || answer=$$?
saved= forbids= cluster=
restore() {
	if [ -n "$$saved" ]; then mv -f "$$saved" $$policy; else rm -f $$forbids; fi
	rm -f $$cluster
}
trap restore EXIT
trap 'exit 1' HUP INT TERM
if [ $$answer != 101 ]; then
	if [ -e $$policy ]; then
		saved=$$(mktemp $$policy.XXXXXX)
		cp -p $$policy "$$saved"
	fi
	forbids=$$policy
	printf '#!/bin/sh\nexit 101\n' >$$policy
	chmod 755 $$policy
fi
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
	cluster=/etc/postgresql-common/createcluster.d/weir.conf
	mkdir -p $${cluster%/*}
	echo 'create_main_cluster = false' >$$cluster
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q || echo "apt-get update failed; trying with the lists that are here" >&2
apt-get install -y -q --no-install-recommends "$$@"
case " $$* " in
*" redis-server "*) ! command -v systemctl >/dev/null 2>&1 || systemctl disable redis-server >/dev/null 2>&1 || : ;;
esac
case " $$* " in
*" postgresql "*) ! command -v systemctl >/dev/null 2>&1 || systemctl disable postgresql >/dev/null 2>&1 || : ;;
esac
endef
export INSTALL
