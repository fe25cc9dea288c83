module github.com/weir-go/weir/echolimit

go 1.26.0

require (
	github.com/labstack/echo/v4 v4.11.4 // 4.10 has no Unwrap of its Response
	github.com/weir-go/weir v0.1.0
)

require (
	github.com/golang-jwt/jwt/v5 v5.2.3 // indirect
	github.com/labstack/gommon v0.4.2 // indirect
	github.com/mattn/go-colorable v0.1.13 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasttemplate v1.2.2 // indirect
	golang.org/x/crypto v0.17.0 // indirect
	golang.org/x/net v0.19.0 // indirect
	golang.org/x/sys v0.15.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)

replace github.com/weir-go/weir => ..
