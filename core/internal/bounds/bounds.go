// Package bounds has the bounds that core, the stores and their tests share.
package bounds

// Charges is the largest number of charges of a call of a Store. It bounds the time for which one script blocks all
// other commands of Redis, to about two milliseconds, and is the same for all Stores, so that a program runs with each
// of them.
const Charges = 128
