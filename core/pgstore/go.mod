module github.com/weir-go/weir/core/pgstore

go 1.26.0

require github.com/weir-go/weir v0.1.0

replace github.com/weir-go/weir => ../..
