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

// Conditions say when a device takes part. A condition that cannot be determined on a computer
// counts as met.
type Conditions struct {
	OnPower   bool // not on battery power
	OnNetwork bool // only with a network interface other than loopback
	WhenIdle  bool // not while the load exceeds half of the processors
}

// Met reports whether the conditions are met, and otherwise why not. root is the file system of the
// computer, from which it reads Linux's files on power and load.
func (m Conditions) Met(root fs.FS) (bool, string) {
	switch {
	case m.OnPower && onBattery(root):
		return false, "it runs on battery power"
	case m.OnNetwork && !networked():
		return false, "no network is up"
	case m.WhenIdle:
		if load, known := loadOf(root); known && load > 0.5*float64(runtime.NumCPU()) {
			return false, fmt.Sprintf("the computer is busy (a load of %.1f on %d processors)", load, runtime.NumCPU())
		}
	}
	return true, ""
}

// onBattery reports whether a battery is discharging and no other power supply is online.
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
			// The battery of a mouse has the scope Device.
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
