module github.com/weir-go/weir/core/pgstore/internal/pgtests

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.11.0
	github.com/lib/pq v1.12.3
	github.com/weir-go/weir v0.1.0
	github.com/weir-go/weir/core/pgstore v0.1.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.2 // indirect
	github.com/maypok86/otter/v2 v2.4.0 // indirect
	golang.org/x/sync v0.17.0 // indirect
	golang.org/x/text v0.29.0 // indirect
)

replace (
	github.com/weir-go/weir => ../../../..
	github.com/weir-go/weir/core/pgstore => ../..
)
