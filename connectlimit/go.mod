module github.com/weir-go/weir/connectlimit

go 1.26.0

require (
	connectrpc.com/connect v1.18.1
	github.com/weir-go/weir v0.1.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250414145226-207652e42e2e // has QuotaId
	google.golang.org/protobuf v1.36.6
)

require github.com/golang-jwt/jwt/v5 v5.2.3 // indirect

replace github.com/weir-go/weir => ..
