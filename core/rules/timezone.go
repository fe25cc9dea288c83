package rules

import (
	"fmt"
	"sync"
	"time"
)

// locations has the locations that were loaded, by name.
var locations sync.Map

// location returns the location that has a name in the IANA database of time zones.
func location(name string) (*time.Location, error) {
	if l, ok := locations.Load(name); ok {
		return l.(*time.Location), nil
	}
	if name == "Local" || name == "localtime" {
		return nil, fmt.Errorf("%q differs from machine to machine: write a name such as Europe/Berlin", name)
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is unknown: write a name such as Europe/Berlin; "+
			"where the system has no zoneinfo, the program has to import time/tzdata", name)
	}
	locations.Store(name, l)
	return l, nil
}
