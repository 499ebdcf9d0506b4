// Package sim runs whole nodes under virtual time: the code that ships, on simulated machines whose power is cut, whose processes are
// killed and whose network fails, with a client that remembers what it was told.
//
// Called by its own tests. A World is machines, a node on each and a client; a Workload is what the client does; the checks are apart
// from both, in check.go, and are numbered:
//
//  1. A topic whose creation was acknowledged is there after any crash, with the same id, and so is every setting.
//  2. A record that was acknowledged is at the offset that was told, once, after a kill; after a power cut if its topic has
//     flush.messages=1.
//  3. What is in a log was sent: no record is garbled, none is of another partition, offsets have no gaps.
//  4. Between records of one producer nothing is reordered or doubled: it is idempotent.
//  5. A committed group offset does not go back over a kill.
//  6. The end of a log does not go back over a kill.
//  7. The node comes back within a minute, whatever its disk looks like, as long as the disk works.
//
// Never sleeps, never uses a clock but the world's: one seed gives one run, and World.Hash says so.
package sim
