package coordinator

// State is what a coordinator keeps in one shard. Its methods run on the shard's queue.
type State interface {
	// Replay applies a record of the log. producerID and producerEpoch are -1 outside of transactions. The bytes are
	// only valid during the call. An error stops the loading, so records that only a newer release understands
	// are not errors.
	Replay(offset, producerID int64, producerEpoch int16, key, value []byte) error

	// ReplayEndTxn ends the transaction of a producer in this partition.
	ReplayEndTxn(producerID int64, producerEpoch int16, commit bool) error

	// Loaded is called once, when the log has been replayed: events follow.
	Loaded()

	// Unloaded is called once after Loaded, when this node is no longer the coordinator. Whoever still waits
	// is answered here; the shard must not be used afterwards.
	Unloaded()
}
