// Command device is an app in a terminal that uses package mobile as a phone's app would: it records
// events, checks in with the coordinator, and shows recommendations. It never uses another package of ours.
//
//	go run ./examples/device -server https://127.0.0.1:7633 -pin sha256/... -token TOKEN
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/mobile"
)

const help = `add ID    record an item that you have seen
undo      remove the last item
next      show recommendations
sync      check in with the coordinator now
log       show what the device has sent
forget    leave the federation and delete everything
quit`

// printer prints the result of each step. An app would show it in its settings.
type printer struct{}

func (printer) Stepped(step, code, failure string) {
	fmt.Println(strings.Join(strings.Fields(step+" "+code+" "+failure), " "))
}

// alwaysReady lets the device take part at any time. A phone checks for power and an unmetered network.
type alwaysReady struct{}

func (alwaysReady) Ready() string { return "" }

func main() {
	c := mobile.NewConfig()
	flag.StringVar(&c.Server, "server", "", "the coordinator's address")
	flag.StringVar(&c.Pin, "pin", "", "pin of the coordinator's TLS key")
	flag.StringVar(&c.Token, "token", "", "enrolment token, needed once")
	flag.StringVar(&c.StateFile, "state", "example.state", "private state file of the device")
	flag.BoolVar(&c.Deterministic, "deterministic", false, "take part in a deterministic federation, for tests")
	flag.Parse()
	d, err := mobile.Open(c, alwaysReady{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(help)
	in := bufio.NewScanner(os.Stdin)
	for fmt.Print("> "); in.Scan(); fmt.Print("> ") {
		word, rest, _ := strings.Cut(strings.TrimSpace(in.Text()), " ")
		if word == "quit" {
			return
		}
		if err := do(d, word, strings.TrimSpace(rest)); err != nil {
			fmt.Println(err)
		}
	}
}

func do(d *mobile.Device, word, rest string) error {
	switch word {
	case "":
		return nil
	case "add":
		return d.Add(rest)
	case "undo":
		item, err := d.Undo()
		if err == nil {
			fmt.Println("removed:", item)
		}
		return err
	case "next":
		return show(d)
	case "sync":
		_, err := d.Step(printer{})
		return err
	case "log":
		about, err := d.About()
		fmt.Println(about)
		return err
	case "forget":
		return d.Forget()
	}
	fmt.Println(help)
	return nil
}

func show(d *mobile.Device) error {
	list, err := d.Recommend(5)
	if err != nil {
		return err
	}
	if list.Note() != "" {
		fmt.Println(list.Note())
	}
	for i := range list.Size() {
		p := list.At(i)
		fmt.Printf("%d  %s (%s)\n", i+1, p.Title, p.ID)
	}
	fmt.Printf("model %d, %s old\n", list.Model(), time.Since(time.UnixMilli(list.MadeMillis())).Round(time.Second))
	return nil
}
