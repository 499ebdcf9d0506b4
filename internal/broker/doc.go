// Package broker owns the broker role of a node: its registration and heartbeats, what it does when metadata changes, and the
// handlers of the requests that clients send to it.
//
// Called by server (one handler per API key, handle_<api>.go, from any goroutine) and by image's Loader, whose publisher it is.
//
// Where to start: broker.go is what a broker is made of; lifecycle.go the states it goes through; publisher.go what a new image
// sets off; forward.go and channel.go the way to the active controller.
//
// Never decides what only the controller may: creations, changes of settings and registrations are asked for. Handlers look at
// one image from beginning to end, never at two.
//
// Sources: KIP-500, KIP-590 (forwarding), KIP-631 (lifecycle), KIP-841 and KIP-966 (fencing, clean shutdown), KIP-858 (directories), KIP-919 (controller
// registration).
package broker
