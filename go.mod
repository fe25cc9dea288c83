module github.com/weir-go/weir

go 1.26.0

// An application gets the dependencies of each module that it requires, so this one has no web framework, no client of
// Redis and no YAML. Modules of their own are ginlimit, echolimit, echolimit/v5, connectlimit, grpclimit, core/pgstore,
// core/redisstore, core/rules, core/inspect, the exporters below core/observe, and cmd/weir. Tests that need several of these are in
// core/internal/frameworks and core/redisstore/internal/sim, which no module requires.
//
// The versions are the lowest with which all tests pass, so that no application has to upgrade; see "make versions"
// and Compatibility in CONTRIBUTING.md.
require (
	github.com/golang-jwt/jwt/v5 v5.2.3 // 5.2.2 has no variadic WithAudience, 5.2.1 has CVE-2025-30204
	github.com/maypok86/otter/v2 v2.4.0
)
