// Command device is an app in a terminal, made of package mobile as a phone's app would
// be: it tells the device what its owner does, gives it time, and shows what it recommends.
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

const help = `add ID    tell the device what you have just seen
undo      take the last one back
next      recommendations
sync      check in with the coordinator now
log       what the device has sent
forget    leave, and wipe everything
quit`

// shower prints steps: an app would show them in its settings.
type shower struct{}

func (shower) Stepped(step, failure string) { fmt.Println(strings.TrimSpace(step + " " + failure)) }

// awake is the guard of a computer that is always ready. A phone asks for power and an
// unmetered network.
type awake struct{}

func (awake) Ready() string { return "" }

func main() {
	c := mobile.NewConfig()
	flag.StringVar(&c.Server, "server", "", "the coordinator's address")
	flag.StringVar(&c.Pin, "pin", "", "its pin")
	flag.StringVar(&c.Token, "token", "", "to enrol with, once")
	flag.StringVar(&c.StateFile, "state", "example.state", "where the device keeps what is private")
	flag.BoolVar(&c.Deterministic, "deterministic", false, "take part in a deterministic federation, for tests")
	flag.Parse()
	d, err := mobile.Open(c, awake{})
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
			fmt.Println("taken back:", item)
		}
		return err
	case "next":
		return show(d)
	case "sync":
		_, err := d.Step(shower{})
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
	for i := range list.Size() {
		p := list.At(i)
		fmt.Printf("%d  %s (%s)\n", i+1, p.Title, p.ID)
	}
	fmt.Printf("model %d, %s old\n", list.Model(), time.Since(time.UnixMilli(list.MadeMillis())).Round(time.Second))
	return nil
}
