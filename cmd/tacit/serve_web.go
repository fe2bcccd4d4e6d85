package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/web"
)

// pageFlags say which pages a coordinator serves.
type pageFlags struct {
	dashboard string // address of the dashboard that needs no token
	web       webFlags
}

// webFlags say which pages may be devices.
type webFlags struct {
	dir     string
	origins []string
}

func (f *webFlags) flags(fl *pflag.FlagSet) {
	fl.StringVar(&f.dir, "web", "", "folder of the device page, built by make web; served at /device/")
	fl.StringArrayVar(&f.origins, "allow-origin", nil,
		"other origin whose pages may be devices, such as https://shop.example (repeatable)")
}

// check rejects invalid values before anything is created.
func (f *webFlags) check() error {
	for _, o := range f.origins {
		if err := rpc.CheckOrigin(o); err != nil {
			return input(fmt.Errorf("--allow-origin: %w", err), "example: --allow-origin https://shop.example")
		}
	}
	h, err := web.New(f.dir)
	if err != nil {
		return input(fmt.Errorf("--web: %w", err), "make web, in the source of tacit, builds web/dist")
	}
	return h.Close()
}

// configure adds the device page and the allowed origins to a server.
func (f *webFlags) configure(c *rpc.Config) (*web.Handler, error) {
	h, err := web.New(f.dir)
	if err != nil {
		return nil, err
	}
	c.Origins = f.origins
	c.Mounts = append(c.Mounts, rpc.Mount{
		Prefix: web.Path, Open: true, Handler: func(w http.ResponseWriter, r *http.Request) error {
			h.ServeHTTP(w, r)
			return nil
		},
	})
	return h, nil
}

// pageLine is the line that says where the device page is. The token is behind a #, so browsers do not send it to
// the server as part of the address.
func (f *webFlags) pageLine(w *localAccess) string {
	if f.dir == "" {
		return ""
	}
	return fmt.Sprintf("device page  %s%s/#token=%s\n", w.URL, web.Path, w.Token)
}
