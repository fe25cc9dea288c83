// Package processes knows the processes of an application, through Redis: how many there are of each rule, and which
// rules and overrides each of them has in force.
//
// Each process writes a heartbeat every ten seconds, by a script. Processes with equal rules are a group, so a heartbeat
// is one write, and its reply one number for each group. A process without a heartbeat for 30 s is not counted.
//
//	Counter   counter.go      the heartbeats of a process, and the numbers that it has read
//	Record    record.go       the keys in Redis, the script and its reply
//	About     about.go        the description of a process
//	Rule      rule.go         the description of a rule of processes
package processes
