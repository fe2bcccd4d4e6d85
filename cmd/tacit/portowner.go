package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// portOwner returns " by process N" if it can find out who listens on the port of an address. It reads /proc, which
// only Linux has, and sees the processes of other users only as root.
func portOwner(address string) string {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	port, err := net.LookupPort("tcp", text)
	if err != nil {
		return ""
	}
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		addListeners(sockets, table, port)
	}
	if len(sockets) == 0 {
		return ""
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && sockets[to] {
			return fmt.Sprintf(" by process %s", strings.Split(link, "/")[2])
		}
	}
	return ""
}

// addListeners adds the sockets of a table of /proc that listen on a port, as the links of /proc name them.
func addListeners(sockets map[string]bool, table string, port int) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close()
	const listening = "0A"
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		_, local, _ := strings.Cut(fields[1], ":")
		if n, err := strconv.ParseInt(local, 16, 32); err == nil && int(n) == port {
			sockets["socket:["+fields[9]+"]"] = true
		}
	}
}
