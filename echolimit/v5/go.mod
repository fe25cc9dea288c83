module github.com/weir-go/weir/echolimit/v5

go 1.26.0

require (
	github.com/labstack/echo/v5 v5.4.3 // 5.3 has no ProblemError
	github.com/weir-go/weir v0.1.0
)

require (
	github.com/golang-jwt/jwt/v5 v5.2.3 // indirect
	golang.org/x/time v0.15.0 // indirect
)

replace github.com/weir-go/weir => ../..
