package env

import "time"

// Queue runs posted functions one at a time, first in first out: the thread of one core. Posting never blocks and is
// allowed from anywhere, the queue's own functions included.
type Queue interface {
	// Post adds fn at the end. After Close it does nothing.
	Post(name string, fn func())
	// After posts fn once d has passed. A timer that was stopped before its function began never runs it.
	After(d time.Duration, name string, fn func()) Timer
	// Len is the number of functions waiting.
	Len() int
	// Close runs what has been posted, drops timers and later posts, then calls done (which may be nil).
	Close(done func())
}
