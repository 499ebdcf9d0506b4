package format

import (
	"errors"
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/controller"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Standalone formats the directories of a node that is the only voter of a new cluster, and returns the cluster's id.
func Standalone(fsys env.FS, rnd env.Rand, now time.Time, cfg *config.Node) (clusterID string, err error) {
	if !cfg.HasRole(config.RoleController) {
		return "", errors.New("a node that is to be the only voter needs the role controller")
	}
	clusterID = randomID(rnd).String()
	voter := uuid.Zero
	for _, dir := range directories(cfg) {
		id := randomID(rnd)
		if dir == cfg.MetadataLogDir {
			voter = id
		}
		if err := formatDirectory(fsys, now, dir, storage.MetaProperties{Version: 1, ClusterID: clusterID, NodeID: cfg.NodeID, DirectoryID: id}); err != nil {
			return "", err
		}
	}
	voters := raft.NewVoterSet(raft.Voter{
		Key: raft.ReplicaKey{ID: cfg.NodeID, DirectoryID: voter}, Endpoints: raft.ControllerEndpoints(cfg), MaxKRaft: raft.MaxKRaftVersion,
	})
	logDir := raft.LogDir(cfg.MetadataLogDir)
	head := raft.SnapshotHead{KRaftVersion: raft.MaxKRaftVersion, Voters: voters}
	if err := raft.WriteBootstrap(fsys, logDir, head, controller.DefaultBootstrap(metadata.LatestVersion), now.UnixMilli()); err != nil {
		return "", err
	}
	return clusterID, fsys.SyncDir(cfg.MetadataLogDir)
}

func formatDirectory(fsys env.FS, now time.Time, dir string, p storage.MetaProperties) error {
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make log directory: %w", err)
	}
	return storage.WriteMetaProperties(fsys, dir, p, now)
}

// randomID draws until an id comes out that Kafka would take.
func randomID(rnd env.Rand) uuid.UUID {
	for {
		var b [16]byte
		rnd.Read(b[:])
		if id, ok := uuid.FromRandom(b); ok {
			return id
		}
	}
}
