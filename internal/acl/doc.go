// Package acl owns the words of access control entries: their types and names, and which entries a filter means.
//
// Called by controller and broker, which keep and list entries, and by the tools. Any goroutine; nothing here changes.
//
// Never decides whether somebody may do something.
//
// Sources: KIP-11, KIP-290 (prefixed patterns), KIP-801 (entries in the metadata log).
package acl
