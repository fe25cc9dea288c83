module github.com/weir-go/weir

go 1.26.0

// The lowest versions with which all tests pass, so that no application has to upgrade; see "make
// versions" and Compatibility in CONTRIBUTING.md.
require (
	github.com/golang-jwt/jwt/v5 v5.2.3 // 5.2.2 has no variadic WithAudience, 5.2.1 has CVE-2025-30204
	github.com/maypok86/otter/v2 v2.4.0
)
