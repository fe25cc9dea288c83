//go:build !linux

package sim

func sockets() [2]int { panic("sim: needs Linux") }
