// Package node wires the cores of one process: the quorum of the metadata log, the controller, the image and its
// publishers, the broker with its logs, partitions and coordinators, and the listeners in front of them, as
// process.roles says.
//
// Called by cmd through cli, by the simulator and by tests that embed a cluster; the difference is the env they give.
//
// Never decides anything about the cluster: what is here is the order in which things begin and end.
package node
