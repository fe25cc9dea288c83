package casstore

import (
	"context"
	"encoding/hex"
)

// Rows are the rows of a database. Each row has the state of one rule of one key. A [Store] reads rows, decides, and swaps
// the changed ones if they are unchanged, so the database needs neither arithmetic nor a lock between the two. The methods are
// called concurrently, with contexts that end some time after the callers of the Store have left.
type Rows interface {
	// Read returns the row of each key, in the order of keys, and the time of the database in microseconds since the Unix
	// epoch. A key without a row has the zero Row. There are 1 to 4096 keys, in ascending order, each once. Read must see
	// every Swap that has returned before, so it cannot be served by a replica.
	Read(ctx context.Context, keys []Key) (rows []Row, now int64, err error)

	// Swap swaps groups, and reports for each whether it did. A group is swapped whole or not at all: if all of its rows
	// have the Version of their Change, they get the Next one, with the State and Expires. No two groups of a call have a
	// key in common, and the groups, and the changes of each, are in ascending order of their keys.
	//
	// After an error, the Store does not know which groups were swapped, unless the error wraps [ErrConflict], which says that none
	// was. The outcome must be known to the database before Swap returns: rows that a statement returns may arrive before it
	// has failed.
	Swap(ctx context.Context, groups []Group) (done []bool, err error)
}

// A Locker is Rows that can also swap under locks. Without it, a process whose round trips take longer than those of others
// can lose the swap of a hot row again and again, until its deadline.
type Locker interface {
	// Update locks the rows of keys, calls decide once with the result of a Read, and writes the changes that it returns,
	// all in one transaction. Concurrent calls have to wait for each other in some order, and all of their keys are in
	// ascending order. After an error, the Store does not know whether the transaction was committed, unless it wraps
	// [ErrConflict]. Rows that do not change must not be created, or those of a full database would grow.
	Update(ctx context.Context, keys []Key, decide func(rows []Row, now int64) Group) error
}

// A Bounder is Rows that hold a limited number of rows.
type Bounder interface {
	// Full reports whether no key should get a new row now, except for places of a core.InFlight. Such keys then share
	// overflow rows of their rule, as in package memstore: they are admitted up to the limit together.
	Full() bool
}

// A Key identifies a row: 128 bits of a hash of the application, the key, and the algorithm, name and length of the rule.
// It shows no part of the key. The zero Key is that of a row for probes.
type Key [16]byte

// String returns k in the form of a UUID.
func (k Key) String() string {
	b := make([]byte, 36)
	for i, part := range [...][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		at := 2*part[0] + i
		if hex.Encode(b[at:], k[part[0]:part[1]]); i < 4 {
			b[2*part[1]+i] = '-'
		}
	}
	return string(b)
}

// A Row is the content of a row. The zero Row is that of a key without a row.
type Row struct {
	Version int64  // changes with every Swap; above 0 if there is a row
	State   []byte // a driver.State in the form of its method MarshalBinary; empty if the key is unused
}

// A Group is the changes of rows that depend on each other.
type Group []Change

// A Change replaces a row that still has a Version.
type Change struct {
	Key     Key
	Version int64  // 0 for a key without a row, which then gets one
	Next    int64  // the new version: Version + 1, or a random one above 0 for a new row
	State   []byte // the new state; empty for a key that is unused now
	// Expires is the time in microseconds since the Unix epoch from which the row means the same as none. The database may
	// delete the row from then on, but not within a minute of the change: a late Swap of the row would find none. It is 0 if
	// State is empty.
	Expires int64
}
