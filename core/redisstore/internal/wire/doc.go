// Package wire translates charges into the keys and arguments of a script of Redis, and the reply into answers of
// these charges. It sends nothing: that is the task of package pipe.
//
//	charges -> Encoder.Encode -> NewBatches -> Batch.Args
//	reply -> Batch.SetOutcomes -> Request.Decode -> Request.Answer
//
// The folder lua contains the scripts. An algorithm has a row in algorithm.go, and its files of Lua.
package wire
