package statefile

import (
	"fmt"
	"io/fs"
	"net"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// Conditions says when a device takes part. What is not known of a computer is no reason to
// stay away.
type Conditions struct {
	OnPower   bool // not while it runs on a battery
	OnNetwork bool // not while no network but its own is up
	WhenIdle  bool // not while others use more than half of its processors
}

// Met reports whether now is such a moment; root is the computer's file system, from
// which Linux's files on power and load are read.
func (m Conditions) Met(root fs.FS) (bool, string) {
	switch {
	case m.OnPower && onBattery(root):
		return false, "it runs on a battery"
	case m.OnNetwork && !networked():
		return false, "no network is up"
	case m.WhenIdle:
		if load, known := loadOf(root); known && load > 0.5*float64(runtime.NumCPU()) {
			return false, fmt.Sprintf("the computer is busy (a load of %.1f on %d processors)", load, runtime.NumCPU())
		}
	}
	return true, ""
}

// onBattery reports whether no supply is there but batteries, and one is discharging.
func onBattery(root fs.FS) bool {
	const dir = "sys/class/power_supply"
	supplies, err := fs.ReadDir(root, dir)
	if err != nil {
		return false
	}
	discharging := false
	for _, s := range supplies {
		read := func(name string) string {
			b, _ := fs.ReadFile(root, path.Join(dir, s.Name(), name))
			return strings.TrimSpace(string(b))
		}
		switch read("type") {
		case "Battery":
			// A battery of a mouse has the scope Device.
			discharging = discharging || read("status") == "Discharging" && read("scope") != "Device"
		case "Mains", "USB":
			if read("online") == "1" {
				return false
			}
		}
	}
	return discharging
}

func networked() bool {
	all, err := net.Interfaces()
	if err != nil {
		return true
	}
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			return true
		}
	}
	return false
}

func loadOf(root fs.FS) (float64, bool) {
	b, err := fs.ReadFile(root, "proc/loadavg")
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(b), " ")
	load, err := strconv.ParseFloat(first, 64)
	return load, err == nil
}
