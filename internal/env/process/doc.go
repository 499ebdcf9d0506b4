// Package process is the env of a node that shares its process with others, and to which can be done what can be done to a process of
// its own: it is frozen (kill -STOP), cut off from the network, killed (kill -9).
//
// Called by ottlatest. It wraps env/real: time, files and sockets are the real ones.
//
// Never stops a function in the middle: a frozen node ends what it is at up to its next event or file access, and then stands. What a
// killed node has written stays, as the page cache outlives a process.
package process
