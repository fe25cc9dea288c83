module github.com/weir-go/weir/grpclimit

go 1.26.0

require (
	github.com/weir-go/weir v0.1.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251202230838-ff82c1b0f217
	google.golang.org/grpc v1.79.3 // up to 1.79.2, a client that leaves out the slash of a method avoids its route
	google.golang.org/protobuf v1.36.10
)

require github.com/golang-jwt/jwt/v5 v5.2.3

require (
	golang.org/x/net v0.48.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
	golang.org/x/text v0.32.0 // indirect
)

replace github.com/weir-go/weir => ..
