package main

import (
	"fmt"
	"io"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/lab"
	"github.com/tacit-rec/tacit/sim"
)

// cardData is what is known of a run before it starts.
type cardData struct {
	Method       string  `json:"method"`
	Preset       string  `json:"preset,omitempty"`
	Data         string  `json:"dataset"`
	Users        int     `json:"users"`
	Items        int     `json:"items"`
	Rows         int     `json:"interactions"`
	Sparsity     float64 `json:"sparsity"`
	Hash         string  `json:"data_hash"`
	Left         string  `json:"left_out,omitempty"`
	Protocol     string  `json:"protocol"`
	Leaks        bool    `json:"leaks"`
	About        string  `json:"protocol_about"`
	SharedFloats int     `json:"shared_parameters"`
	PrivateFloat int     `json:"private_parameters_per_device"`
	BytesUpMax   int     `json:"bytes_up_at_most"`
	BytesDown    int     `json:"bytes_down"`
	Memory       int     `json:"memory_estimate_bytes"`
	Seconds      float64 `json:"seconds_estimate"`
	Rounds       int     `json:"rounds"`
}

// perSample is a rough cost of one sample on one core, for the estimate only.
const perSample = 110e-9

func cardOf(e lab.Started) cardData {
	d, j, p := data.Describe(e.Split.Source), e.Job, e.Run.Fleet.Plan
	c := cardData{
		Method: j.Method, Data: d.Name, Users: d.Users, Items: d.Items, Rows: d.Rows, Sparsity: d.Sparsity,
		Hash: d.Hash, Left: d.Left, Protocol: j.Protocol, Leaks: e.Split.Leaks(), About: e.Split.About, Rounds: j.Rounds,
		BytesDown: p.BytesDown(), BytesUpMax: p.BytesUpMax(),
	}
	if j.Preset != nil {
		c.Preset = j.Method + "/" + j.Preset.Data
	}
	c.SharedFloats, c.PrivateFloat = p.Sizes()
	c.Memory = e.Run.Fleet.Mem.Bytes() + 4*p.PlainSize()*d.Users + 16*d.Rows
	samples := float64(p.MaxSamples(d.Rows)) * j.Cohort.Expected(d.Users) / float64(d.Users)
	evals := float64(d.Users) * float64(2*e.Split.Sampled) * 20e-9 / float64(j.EvalEvery)
	if e.Split.Full {
		evals += float64(d.Users) * float64(d.Items) * 15e-9 / float64(j.EvalEvery)
	}
	c.Seconds = float64(j.Rounds) * (samples*perSample + evals) / float64(max(j.Jobs, 1))
	return c
}

func card(w io.Writer, e lab.Started) {
	c := cardOf(e)
	leak := "does not leak"
	if c.Leaks {
		leak = "LEAKS"
	}
	preset := ""
	if c.Preset != "" {
		preset = ", preset " + c.Preset
	}
	fmt.Fprintf(w, "data      %s: %d users, %d items, %d interactions, sparsity %.2f%%, hash %.12s\n", c.Data, c.Users, c.Items, c.Rows, 100*c.Sparsity, c.Hash)
	if c.Left != "" {
		fmt.Fprintf(w, "          left out: %s\n", c.Left)
	}
	fmt.Fprintf(w, "protocol  %s (%s): %s\n", c.Protocol, leak, c.About)
	fmt.Fprintf(w, "method    %s%s: %d shared numbers, %d private ones on each device\n", c.Method, preset, c.SharedFloats, c.PrivateFloat)
	fmt.Fprintf(w, "traffic   down %s, up at most %s, per device and round\n", size(float64(c.BytesDown)), size(float64(c.BytesUpMax)))
	fmt.Fprintf(w, "estimate  %d rounds, about %s of memory and %.2g s\n", c.Rounds, size(float64(c.Memory)), c.Seconds)
}

// dryRun prints the card and runs nothing.
func (a *app) dryRun(j *lab.Job) error {
	p, err := data.ProtocolNamed(j.Protocol)
	if err != nil {
		return input(err, "")
	}
	split, err := data.NewSplit(j.Source, p, j.Seed)
	if err != nil {
		return input(err, "")
	}
	run, err := sim.New(j.Params, split, j.Options, j.Seed, j.Jobs)
	if err != nil {
		return input(err, "")
	}
	e := lab.Started{Job: j, Run: run, Split: split}
	return a.result(cardOf(e), func(w io.Writer) error { card(w, e); return nil })
}
