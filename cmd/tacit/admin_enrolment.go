package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
)

func (a *app) adminDevices() *cobra.Command {
	return a.adminCommand("devices", "List the devices: state, last seen, program and privacy cost",
		"  tacit admin devices\n  tacit admin devices --json", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			all := []coordinator.ListedDevice{}
			for from := uint32(0); ; {
				page, err := admin.Devices(ctx, from)
				if err != nil {
					return err
				}
				all = append(all, page.Devices...)
				if from = page.Next; from == 0 {
					break
				}
			}
			return list(a, all, "no device has enrolled", "device, state, enrolled, last seen, program, token, epsilon",
				deviceRow)
		})
}

func deviceRow(d coordinator.ListedDevice) []any {
	state, seen, epsilon := string(d.State), "-", "-"
	if d.Reason != "" {
		state += ": " + d.Reason
	}
	if d.LastSeen != nil {
		seen = moment(*d.LastSeen)
	}
	if d.Epsilon != nil {
		epsilon = fmt.Sprintf("%.3g", *d.Epsilon)
	}
	return []any{d.ID, state, moment(d.Enrolled), seen, orDash(d.Software), orDash(d.Note), epsilon}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (a *app) adminTokens() *cobra.Command {
	return a.adminCommand("tokens", "List the tokens that let devices enrol", "", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			all, err := admin.Tokens(ctx)
			if err != nil {
				return err
			}
			return list(a, all, "no tokens", "token, used, expires, state, note", func(t coordinator.TokenInfo) []any {
				used := fmt.Sprintf("%d of %d", t.Used, t.Uses)
				return []any{t.ID, used, moment(t.Expires), tokenState(t), orDash(t.Note)}
			})
		})
}

func tokenState(t coordinator.TokenInfo) string {
	switch {
	case t.Revoked:
		return "revoked"
	case time.Now().After(t.Expires):
		return "expired"
	case t.Used >= t.Uses:
		return "used up"
	}
	return "valid"
}

func (a *app) adminRevokeToken() *cobra.Command {
	return a.adminCommand("revoke-token TOKEN-ID", "Revoke a token: no device can enrol with it any more",
		"  tacit admin revoke-token 5c1d0a9e33b7      # an ID of tacit admin tokens", exactArgs(1),
		func(ctx context.Context, admin *coordinator.AdminClient, words []string) error {
			s, err := admin.RevokeToken(ctx, words[0])
			if err != nil {
				return err
			}
			return a.changed(s, "token %s is revoked; devices that enrolled with it stay", words[0])
		})
}

func (a *app) adminAppKey() *cobra.Command {
	var note, remove string
	var list bool
	c := a.adminCommand("app-key", "Create a key with which an app's server lets installations enrol",
		"  tacit admin app-key --note Android > app.key\n  tacit admin app-key --list\n"+
			"  tacit admin app-key --remove 5c1d0a9e33b7", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			switch {
			case list:
				return a.listAppKeys(ctx, admin)
			case remove != "":
				s, err := admin.RemoveAppKey(ctx, remove)
				if err != nil {
					return err
				}
				return a.changed(s, "app key %s is removed: its tokens are refused from now on", remove)
			}
			return a.makeAppKey(ctx, admin, note)
		})
	c.Flags().StringVar(&note, "note", "", "what the key is for; devices that enrol with it have the same note")
	c.Flags().BoolVar(&list, "list", false, "list the app keys")
	c.Flags().StringVar(&remove, "remove", "", "`ID` of a key whose tokens are refused from now on")
	a.describe(c, "", flagsUnder("App key", "note list remove", ""), connectGroup)
	return c
}

// makeAppKey makes a key pair, gives the public half to the coordinator and prints the private half.
func (a *app) makeAppKey(ctx context.Context, admin *coordinator.AdminClient, note string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	id, err := admin.AddAppKey(ctx, public, note)
	if err != nil {
		return err
	}
	federation, _, err := admin.AppKeys(ctx)
	if err != nil {
		return err
	}
	seed := hex.EncodeToString(private.Seed())
	a.progress("app key %s of federation %x: the app's server signs tokens with this ed25519 seed, which is shown "+
		"once (format: docs/protocol.md, App tokens):", id, federation)
	out := map[string]any{"id": id, "federation": hex.EncodeToString(federation), "seed": seed}
	return a.resultLine(out, "%s", seed)
}

func (a *app) listAppKeys(ctx context.Context, admin *coordinator.AdminClient) error {
	_, all, err := admin.AppKeys(ctx)
	if err != nil {
		return err
	}
	return list(a, all, "no app keys", "key, added, devices, note", func(k coordinator.AppKeyInfo) []any {
		return []any{k.ID, moment(k.Added), k.Signed, orDash(k.Note)}
	})
}
