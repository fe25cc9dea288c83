package core

import "github.com/weir-go/weir/core/driver"

// A Store keeps the states of rules, for each key. Make one with package memstore, for this
// process, or redisstore, for all processes that share a Redis. Packages failover, denycache and
// lease make a Store over another. Package driver has the contract for implementers.
type Store = driver.Store
