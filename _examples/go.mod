module github.com/weir-go/weir/examples

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/gin-gonic/gin v1.12.0
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/labstack/echo/v4 v4.16.0
	github.com/labstack/echo/v5 v5.4.4
	github.com/ncruces/go-sqlite3 v0.35.6
	github.com/prometheus/client_golang v1.25.0
	github.com/prometheus/common v0.72.0
	github.com/prometheus/prometheus v0.310.0 // later ones import k8s.io/client-go in model/rulefmt
	github.com/redis/go-redis/v9 v9.23.0
	github.com/weir-go/weir v0.1.0
	github.com/weir-go/weir/connectlimit v0.1.0
	github.com/weir-go/weir/core/observe/prometheus v0.1.0
	go.yaml.in/yaml/v4 v4.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/bytedance/gopkg v0.1.3 // indirect
	github.com/bytedance/sonic v1.15.0 // indirect
	github.com/bytedance/sonic/loader v0.5.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cloudwego/base64x v0.1.6 // indirect
	github.com/dennwc/varint v1.0.0 // indirect
	github.com/edsrzf/mmap-go v1.2.0 // indirect
	github.com/facette/natsort v0.0.0-20181210072756-2cd4dd1e2dcb // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/gabriel-vasile/mimetype v1.4.12 // indirect
	github.com/gin-contrib/sse v1.1.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/go-playground/locales v0.14.1 // indirect
	github.com/go-playground/universal-translator v0.18.1 // indirect
	github.com/go-playground/validator/v10 v10.30.1 // indirect
	github.com/goccy/go-json v0.10.5 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/grafana/regexp v0.0.0-20250905093917-f7b3be9d1853 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/labstack/gommon v0.5.0 // indirect
	github.com/leodido/go-urn v1.4.0 // indirect
	github.com/mattn/go-colorable v0.1.15 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/maypok86/otter/v2 v2.4.0 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.3-0.20250322232337-35a7c28c31ee // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.3.35304 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	github.com/pelletier/go-toml/v2 v2.2.4 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/quic-go/qpack v0.6.0 // indirect
	github.com/quic-go/quic-go v0.59.0 // indirect
	github.com/twitchyliquid64/golang-asm v0.15.1 // indirect
	github.com/ugorji/go/codec v1.3.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasttemplate v1.2.2 // indirect
	github.com/weir-go/weir/cmd/weir v0.1.0 // indirect
	github.com/weir-go/weir/core/inspect v0.1.0
	github.com/weir-go/weir/core/redisstore v0.1.0
	github.com/weir-go/weir/core/rules v0.1.0
	github.com/weir-go/weir/echolimit v0.1.0
	github.com/weir-go/weir/echolimit/v5 v5.1.0
	github.com/weir-go/weir/ginlimit v0.1.0
	github.com/weir-go/weir/grpclimit v0.1.0
	go.mongodb.org/mongo-driver/v2 v2.5.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.45.0 // indirect
	go.opentelemetry.io/otel/metric v1.45.0 // indirect
	go.opentelemetry.io/otel/trace v1.45.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/arch v0.22.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

require (
	github.com/MicahParks/jwkset v0.11.4
	github.com/MicahParks/keyfunc/v3 v3.9.1
)

require (
	github.com/graph-gophers/graphql-go v1.11.0
	github.com/graphql-go/graphql v0.8.1
	github.com/graphql-go/handler v0.2.4
	github.com/hibiken/asynq v0.26.0
	github.com/riverqueue/river v0.51.2
	golang.org/x/time v0.15.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgx/v5 v5.11.0
	github.com/riverqueue/river/riverdriver v0.51.2 // indirect
	github.com/riverqueue/river/rivershared v0.51.2 // indirect
	github.com/riverqueue/river/rivertype v0.51.2 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/spf13/cast v1.10.0 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.2.0 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	github.com/weir-go/weir/core/pgstore v0.1.0
	golang.org/x/sync v0.24.0 // indirect
)

replace github.com/weir-go/weir => ..

replace github.com/weir-go/weir/core/observe/prometheus => ../core/observe/prometheus

replace github.com/weir-go/weir/core/inspect => ../core/inspect

replace github.com/weir-go/weir/core/observe/otel => ../core/observe/otel

replace github.com/weir-go/weir/core/redisstore => ../core/redisstore

replace github.com/weir-go/weir/core/rules => ../core/rules

replace github.com/weir-go/weir/echolimit => ../echolimit

replace github.com/weir-go/weir/connectlimit => ../connectlimit

replace github.com/weir-go/weir/echolimit/v5 => ../echolimit/v5

replace github.com/weir-go/weir/ginlimit => ../ginlimit

replace github.com/weir-go/weir/grpclimit => ../grpclimit

replace github.com/weir-go/weir/cmd/weir => ../cmd/weir

tool github.com/weir-go/weir/cmd/weir

replace github.com/weir-go/weir/core/pgstore => ../core/pgstore
