// Package frameworks tests key functions, gates, rules and metrics with all web frameworks, stores and exporters side
// by side. It is a module of its own, which no other requires, because a module requires all that its tests import.
package frameworks
