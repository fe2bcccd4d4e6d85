package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/internal/rpc"
)

// limitFlags say how many connections a coordinator accepts.
type limitFlags struct{ connections, perAddress int }

func (l *limitFlags) flags(fl *pflag.FlagSet) {
	fl.IntVar(&l.connections, "connections", 8192, "concurrent connections; at most half of the file descriptors")
	fl.IntVar(&l.perAddress, "address-connections", 4096, "concurrent connections from one address, or from a proxy")
}

// limits returns the limits of a server. Calls from one address have no limit, because a fleet, or everybody behind a
// proxy, shares one.
func (l *limitFlags) limits() (rpc.Limits, error) {
	for name, n := range map[string]int{"connections": l.connections, "address-connections": l.perAddress} {
		if n < 1 {
			return rpc.Limits{}, input(fmt.Errorf("--%s %d: must be at least 1", name, n), "")
		}
	}
	return rpc.Limits{AddressConns: l.perAddress, Conns: l.connections, AddressRate: -1, KeyRate: 200}, nil
}
