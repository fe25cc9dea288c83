module github.com/weir-go/weir/core/redisstore/internal/sim

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/redis/go-redis/v9 v9.20.0
	github.com/weir-go/weir v0.1.0
	github.com/weir-go/weir/core/redisstore v0.1.0
	github.com/weir-go/weir/core/rules v0.1.0
	github.com/yuin/gopher-lua v1.1.1
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/maypok86/otter/v2 v2.4.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
)

replace (
	github.com/weir-go/weir => ../../../..
	github.com/weir-go/weir/core/redisstore => ../..
	github.com/weir-go/weir/core/rules => ../../../rules
)
