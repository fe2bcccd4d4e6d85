package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/study/format"
)

func (a *app) adminToken() *cobra.Command {
	var uses, hours uint32
	var note string
	c := a.adminCommand("token", "Create a token that lets devices enrol", "  tacit admin token --uses 100 --hours 24",
		noArgs, func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			if uses == 0 || hours == 0 {
				return input(fmt.Errorf("--uses %d --hours %d: both must be 1 or more", uses, hours), "")
			}
			token, err := admin.MakeToken(ctx, int(uses), int(hours), note)
			if err != nil {
				return err
			}
			a.progress("%s can enrol with this token within %s:", format.Plural(uses, "device"),
				format.Plural(hours, "hour"))
			return a.resultLine(map[string]any{"token": token, "uses": uses, "hours": hours}, "%s", token)
		})
	c.Flags().Uint32Var(&uses, "uses", 1, "devices that can enrol with the token")
	c.Flags().Uint32Var(&hours, "hours", 24, "hours until it expires")
	c.Flags().StringVar(&note, "note", "", "what the token is for")
	a.describe(c, "", flagsUnder("Token", "uses hours note", ""), connectGroup)
	return c
}

// adminDeviceCommand makes a command that changes one device.
func (a *app) adminDeviceCommand(use, short, done string,
	change func(*coordinator.AdminClient, context.Context, uint32) (*coordinator.Status, error),
) *cobra.Command {
	return a.adminCommand(use+" DEVICE", short,
		"  tacit admin "+use+" 7      # an ID of tacit admin devices",
		checkNumber("tacit admin devices lists the IDs"),
		func(ctx context.Context, admin *coordinator.AdminClient, words []string) error {
			n, err := strconv.ParseUint(words[0], 10, 32)
			if err != nil {
				return input(err, "")
			}
			s, err := change(admin, ctx, uint32(n))
			if err != nil {
				return err
			}
			return a.changed(s, "device %d %s; %s left", n, done, format.Plural(s.Active, "active device"))
		})
}

func (a *app) adminRevoke() *cobra.Command {
	return a.adminDeviceCommand("revoke", "Revoke a device: the coordinator refuses its key from now on",
		"is revoked: the coordinator refuses its calls from now on", (*coordinator.AdminClient).Revoke)
}

func (a *app) adminReadmit() *cobra.Command {
	return a.adminDeviceCommand("readmit", "Readmit a device that was excluded because it lied",
		"is readmitted: it takes part again when it checks in", (*coordinator.AdminClient).Readmit)
}
