// Package raft owns the quorum of the metadata log: who leads it in which epoch, what is in the log, how much of it is
// committed, and its snapshots.
//
// A Quorum is a core: every event runs on its own queue, one after the other, through Handle; what it does outside
// goes through env. Elections are Raft's with a vote before the vote (Prospective, then Candidate), replication is by
// pulling: followers fetch, and the offset they fetch from is their acknowledgement.
//
// Called by controller (PrepareAppend, Resign), by image and controller as listeners, by server for the six requests of
// the quorum, by node at start and stop, by format and the tools for the files. Methods of Quorum may be called from any
// goroutine.
//
// Never makes a transition visible before quorum-state is durable, never counts a record before it was synced, never
// truncates below the high watermark. Never interprets a metadata record. Never waits with an append for others to come:
// appends that arrive while one is being synced share the next batch, so a linger would only add delay.
//
// Sources: KIP-595 (the protocol), KIP-630 (snapshots), KIP-642 (describe quorum), KIP-650, KIP-835 (observers' state),
// KIP-853 (directory ids, voters in the log), KIP-996 (pre-vote), KIP-1166 (high watermark in Fetch).
package raft
