package core

import "github.com/weir-go/weir/core/driver"

// A Store keeps the state of each rule of each key. Package memstore has one for this process, and
// redisstore one for all processes that share a Redis. Packages failover, denycache and lease make
// a Store over another Store. Package driver has the contract for implementers.
type Store = driver.Store
