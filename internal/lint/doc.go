// Package lint holds tests of the code base itself: who may import whom, how
// large things may grow, and the habits of CONTRIBUTING.md that a machine can
// check. It exports nothing; each failure says what to do.
package lint
