// Package casstore makes a store of any database that can read rows and swap them if they are unchanged.
package casstore
