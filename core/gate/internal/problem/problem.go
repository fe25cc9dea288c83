// Package problem lets package adapter set a field of a gate.Problem that applications do
// not see.
package problem

// BeforeMarshal makes f run before p, a *gate.Problem, becomes JSON. Package gate sets
// the variable when it is initialized.
var BeforeMarshal func(p any, f func())
