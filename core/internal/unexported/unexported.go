// Package unexported gives packages of this module access to functions of package core that applications do
// not need.
package unexported

// Core is the value functions of package core. A package asserts it to an interface of the methods that it
// needs.
var Core any
