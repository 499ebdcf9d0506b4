package image

import (
	"time"

	"github.com/ottla-io/ottla/internal/raft"
)

// Publisher is told of every new image. Its methods run on the Loader's queue, one publisher after the other in the order
// in which they were added, and must not block: what takes time goes to a queue of the publisher's own.
type Publisher interface {
	// Name appears in the log.
	Name() string
	// OnMetadataUpdate brings the next image, and what changed since the image before. The first delta a publisher gets
	// starts from the empty image.
	OnMetadataUpdate(d *Delta, img *Image, m Manifest)
	// OnControllerChange tells who leads the metadata quorum. It is first called after the first update.
	OnControllerChange(l raft.LeaderAndEpoch)
}

// Manifest says where an update comes from.
type Manifest struct {
	// Snapshot: the update was loaded from a snapshot, or is the first of a publisher.
	Snapshot bool
	Batches  int // of the log; 0 for a snapshot
	Bytes    int64
	Elapsed  time.Duration // spent on reading and replaying
	Leader   raft.LeaderAndEpoch
}
