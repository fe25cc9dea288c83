// Package processes counts the processes of an application that have a rule, through Redis.
//
// Each process writes a heartbeat every ten seconds, by a script. Processes with equal rules are a group, so a heartbeat
// is one write, and its reply one number for each group. A process without a heartbeat for 30 s is not counted.
package processes
