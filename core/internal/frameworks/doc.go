// Package frameworks tests key functions, gates and rules with all web frameworks side by side. It is a module of
// its own, which no other requires, because a module that is tested with a framework requires it.
package frameworks
