package core

import "github.com/weir-go/weir/core/driver"

// A Store keeps what the keys have used of their rules. Make one with package memstore, for
// this process, or redisstore, for all processes that share a Redis. Packages failover,
// denycache and lease make a Store over another. What a Store has to implement is in package
// driver.
type Store = driver.Store
