package main

import (
	"time"

	"github.com/spf13/pflag"
)

// checkInFlags adds the flags that say how devices enrol without a token and how often they check in.
func (f *serveFlags) checkInFlags(fl *pflag.FlagSet) {
	fl.IntVar(&f.enrolment.OpenPerMinute, "open-enrolment", 0,
		"devices per minute that may enrol without a token; 0: none")
	fl.Float64Var(&f.checkIns.Rate, "check-in-rate", 2000, "check-ins per second of all devices together")
	fl.DurationVar(&f.checkIns.IdleInterval, "idle-interval", 5*time.Minute,
		"shortest time between check-ins of a device if all rounds are done")
	fl.DurationVar(&f.checkIns.MaxInterval, "max-interval", time.Hour, "longest time between check-ins of a device")
}
