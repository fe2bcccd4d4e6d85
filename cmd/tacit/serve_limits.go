package main

import (
	"errors"

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
func (l *limitFlags) limits() rpc.Limits {
	return rpc.Limits{AddressConns: l.perAddress, Conns: l.connections, AddressRate: -1, KeyRate: 200}
}

// check rejects invalid values of the server's flags before anything is created.
func (f *serveFlags) check() error {
	if err := checkFlags(
		flagRule{f.state != "", "state", "(empty)", "a folder"},
		flagRule{f.limits.connections >= 1, "connections", f.limits.connections, "1 or more"},
		flagRule{f.limits.perAddress >= 1, "address-connections", f.limits.perAddress, "1 or more"},
		flagRule{f.enrolment.OpenPerMinute >= 0, "open-enrolment", f.enrolment.OpenPerMinute, "0 or more"},
		flagRule{f.checkIns.Rate > 0, "check-in-rate", f.checkIns.Rate, "above 0"},
		flagRule{f.checkIns.IdleInterval > 0, "idle-interval", f.checkIns.IdleInterval, "above 0s"},
		flagRule{f.checkIns.MaxInterval > 0, "max-interval", f.checkIns.MaxInterval, "above 0s"},
		flagRule{f.runs >= 1, "runs", f.runs, "1 or more"},
	); err != nil {
		return err
	}
	if (f.cert == "") != (f.key == "") {
		return input(errors.New("--cert and --cert-key must be set together"),
			"example: --cert cert.pem --cert-key key.pem")
	}
	return f.web.check()
}
