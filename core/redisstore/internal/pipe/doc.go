// Package pipe sends jobs to the servers of a client of Redis. Concurrent jobs share round trips and scripts; the rest of
// its task is to keep a server busy and no more, to let callers leave at their deadlines, and to send a job again that did
// not run. It knows the keys, the arguments and the work of a job, and no algorithm.
//
//	Pipe.Do -> Sender.Send: a Server with its backlog, the nodes of a Cluster, or direct -> runner.run
package pipe
