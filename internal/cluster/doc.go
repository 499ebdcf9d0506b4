// Package cluster makes a whole cluster of nodes inside one process: their settings, ports and folders, their start and their end.
//
// Called by cli (ottla cluster) and ottlatest. Each node has an env of its own and a folder with a server.properties, with which
// it could also run alone.
//
// Never knows what a node does inside: it opens, starts and stops packages node.
package cluster
