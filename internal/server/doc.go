// Package server owns the listeners of a node: it reads request headers, finds the handler of an API in one table
// (dispatch.go), starts the requests of a connection in their order, and writes the answers in the same order.
//
// Called by node. Handlers run on the goroutine of the connection that asked; they answer from any.
//
// Never decides what a request means, except for ApiVersions, which it answers from the table: what is not in the table
// is not advertised, and what is asked for nevertheless ends the connection. A frame belongs to its call: bytes and records
// of the decoded request alias it, and it goes back to the pool when the answer was given. Who sends what is no
// request is logged once, with the address, and disconnected.
//
// Sources: KIP-35, KIP-482, KIP-511 (ApiVersions); KIP-584 and KIP-1022 (features in it); KIP-110 and KAFKA-18659 (Produce is
// announced from version 0).
package server
