// Package docs holds the pages of the documentation, so that the program can show them without a network. It has no
// code of its own: internal/site renders the pages.
package docs

import "embed"

// Files has the pages, as they are in this folder.
//
//go:embed *.md adr img methods schema
var Files embed.FS
