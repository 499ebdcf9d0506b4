package image

// Image is the state of the cluster at an offset of the metadata log. It is immutable, and its zero value is the empty
// cluster. Nil areas are empty: their methods may be called.
type Image struct {
	Provenance       Provenance
	Features         *Features
	Cluster          *Cluster
	Topics           *Topics
	Configs          *Configs
	ClientQuotas     *ClientQuotas
	ProducerIDs      ProducerIDs
	ACLs             *ACLs
	Scram            *Scram
	DelegationTokens *DelegationTokens
}

// Provenance says which part of the log an image comes from.
type Provenance struct {
	Offset int64 // of the last record in the image; -1 in an empty one
	Epoch  int32 // of that record
	Time   int64 // when that record was appended, ms since 1970; -1 in an empty one
	// BatchAligned: Offset is the last of its batch, so that a snapshot may be taken.
	BatchAligned bool
}

// Empty is the image before the first record.
var Empty = &Image{Provenance: Provenance{Offset: -1, Epoch: -1, Time: -1, BatchAligned: true}}
