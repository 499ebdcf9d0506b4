// Package sim is the env of simulated nodes: a World with one scheduler and virtual time, machines whose disks lose
// what was not synced, and a network that delays, resets and partitions.
//
// Called by internal/sim and by the tests of every core. Everything runs on the caller's goroutine: World.Step takes
// the next event off the heap, runs it to its end, and that is all that ever happens.
//
// Never starts a goroutine, reads a clock or asks for an unseeded random number. One seed gives one trace: World.Hash
// folds in every event with its time, node, kind and name, every frame, and every log line. Each sort of fault draws
// from a random stream of its own, so that a change to one of them leaves the others as they were.
//
// # Time
//
// An event takes no time by itself, but a queue needs some microseconds from one function to the next and a sync
// takes what the disk's options say. While a node waits for its disk all its other events wait too: a node is a
// machine with one processor, and a slow disk is a node that hangs.
//
// # A crash
//
// Node is one life of a machine. Crash cuts the power: queues, timers and connections vanish, the disk keeps what
// was synced and a random part of the rest; Kill ends the process and leaves the page cache as it is. Restart gives
// the next life. CrashAfter places a crash between two operations inside an event; the event is then unwound by a
// panic that only the scheduler sees.
//
// # Reading a trace
//
// One line per event: seconds of virtual time, the machine, the kind, the name.
//
//	12.034512 n1     queue    raft/fetch
//	12.034544 n1     write    n1:30001>n2:9093 #12 81 B
//	12.034803 n2     deliver  n1:30001>n2:9093 #12 81 B
//
// Sources: the simulators of FoundationDB and TigerBeetle (VOPR); pebble's crashable file system.
package sim
