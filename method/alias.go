package method

import (
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
)

// Features are columns about users, items and interactions.
type Features = rows.Features

// Column is one of them: a category, a set of categories or a number for each row.
type Column = rows.Column

// Rand is a stream of random numbers with the same values on every platform.
type Rand = rng.Rand
