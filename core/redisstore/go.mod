module github.com/weir-go/weir/core/redisstore

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.20.0 // 9.18 has no NoRetry, so a decision could be charged twice; Close of 9.19 can hang
	github.com/weir-go/weir v0.1.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/golang-jwt/jwt/v5 v5.2.3 // indirect
	github.com/maypok86/otter/v2 v2.4.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)

replace github.com/weir-go/weir => ../..
