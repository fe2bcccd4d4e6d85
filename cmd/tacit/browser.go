package main

import (
	"os/exec"
	"runtime"
)

// hasDesktop reports whether a person sits in front of a desktop of this machine: not over SSH, and on Unix with a
// display.
func hasDesktop(env func(string) string, system string) bool {
	if env("SSH_CONNECTION") != "" || env("CI") != "" {
		return false
	}
	switch system {
	case "darwin", "windows":
		return true
	}
	return env("DISPLAY") != "" || env("WAYLAND_DISPLAY") != ""
}

// openBrowser opens a page in the user's browser. The address was printed, so a failure changes nothing.
func openBrowser(url string) {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	c := exec.Command(name, args...)
	if c.Start() == nil {
		go func() { _ = c.Wait() }()
	}
}
