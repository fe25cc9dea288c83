package core

import "github.com/weir-go/weir/core/driver"

// A Store keeps the state of each rule of each key. Package memstore provides a Store for this
// process, and redisstore a Store for all processes that share a Redis. Packages failover,
// denycache and lease provide Stores that wrap another Store, and resilient is the recommended
// combination for Redis. Package driver contains the contract.
type Store = driver.Store
