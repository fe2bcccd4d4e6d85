package main

import "sync"

// cleanups are what must be undone before the process ends, also if somebody ends it at once.
type cleanups struct {
	mu  sync.Mutex
	all []func()
}

// add registers a function. The one that it returns calls it; it is called once.
func (c *cleanups) add(f func()) (now func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	once := sync.OnceFunc(f)
	c.all = append(c.all, once)
	return once
}

// run calls all functions, the newest first.
func (c *cleanups) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.all) - 1; i >= 0; i-- {
		c.all[i]()
	}
}
