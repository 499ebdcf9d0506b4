package raft

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// FetchSnapshot (key 59). v0 KIP-630; v1 directory id and endpoints, KIP-853.
// Errors in Kafka's order: INCONSISTENT_CLUSTER_ID, UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH,
// UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE.

type fetchSnapshotRequest struct {
	version int16
	req     *protocol.FetchSnapshotRequest
	respond func(*protocol.FetchSnapshotResponse)
}

func (fetchSnapshotRequest) event() string { return "fetch-snapshot" }

// FetchSnapshot gives a part of a snapshot. Any goroutine.
func (q *Quorum) FetchSnapshot(ctx *rpc.Context, req *protocol.FetchSnapshotRequest, respond func(*protocol.FetchSnapshotResponse)) {
	q.post(fetchSnapshotRequest{ctx.APIVersion, req, respond})
}

func fetchSnapshotError(code int16) *protocol.FetchSnapshotResponse {
	r := protocol.NewFetchSnapshotResponse()
	r.ErrorCode = code
	return r
}

func (q *Quorum) onFetchSnapshotRequest(ev fetchSnapshotRequest) {
	ev.respond(q.answerFetchSnapshot(ev.version, ev.req))
}

func (q *Quorum) answerFetchSnapshot(version int16, req *protocol.FetchSnapshotRequest) *protocol.FetchSnapshotResponse {
	if !q.sameCluster(req.ClusterId) {
		return fetchSnapshotError(kerr.InconsistentClusterId.Code)
	}
	r := protocol.NewFetchSnapshotResponse()
	if len(req.Topics) != 1 || req.Topics[0].Name != Topic || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].Partition != 0 {
		for _, t := range req.Topics {
			out := protocol.FetchSnapshotResponseTopicSnapshot{Name: t.Name}
			for _, p := range t.Partitions {
				bad := protocol.NewFetchSnapshotResponsePartitionSnapshot()
				bad.Index, bad.ErrorCode = p.Partition, kerr.UnknownTopicOrPartition.Code
				out.Partitions = append(out.Partitions, bad)
			}
			r.Topics = append(r.Topics, out)
		}
		return r
	}
	p := &req.Topics[0].Partitions[0]
	out := protocol.NewFetchSnapshotResponsePartitionSnapshot()
	out.SnapshotId.EndOffset, out.SnapshotId.Epoch = p.SnapshotId.EndOffset, p.SnapshotId.Epoch
	out.CurrentLeader.LeaderId, out.CurrentLeader.LeaderEpoch = q.election.LeaderID, q.election.Epoch
	out.ErrorCode = q.checkLeaderRequest(p.CurrentLeaderEpoch)
	if out.ErrorCode == 0 {
		l := q.state.(*leader)
		if l.replica(ReplicaKey{req.ReplicaId, p.ReplicaDirectoryId}, q.voters()) != nil {
			q.heardFrom(l, req.ReplicaId)
		}
		out.ErrorCode = q.readSnapshot(SnapshotID{p.SnapshotId.EndOffset, p.SnapshotId.Epoch}, p.Position, req.MaxBytes, &out)
	}
	r.Topics = []protocol.FetchSnapshotResponseTopicSnapshot{{Name: Topic, Partitions: []protocol.FetchSnapshotResponsePartitionSnapshot{out}}}
	if e, ok := q.leaderEndpoint(); ok && version >= 1 {
		r.NodeEndpoints = []protocol.FetchSnapshotResponseNodeEndpoint{{NodeId: q.election.LeaderID, Host: e.Host, Port: e.Port}}
	}
	return r
}

// readSnapshot fills in a part of a snapshot's file.
func (q *Quorum) readSnapshot(id SnapshotID, at int64, maxBytes int32, out *protocol.FetchSnapshotResponsePartitionSnapshot) int16 {
	if id == bootstrapID || !q.disk.hasSnapshot(id) {
		return kerr.SnapshotNotFound.Code
	}
	f, err := q.env.FS().Open(SnapshotPath(q.disk.dir, id), os.O_RDONLY, 0)
	if err != nil {
		return kerr.SnapshotNotFound.Code
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return kerr.UnknownServerError.Code
	}
	if at < 0 || at >= size {
		return kerr.PositionOutOfRange.Code
	}
	b := make([]byte, min(size-at, int64(max(maxBytes, 1)), int64(q.cfg.FetchSnapshotMaxBytes)))
	if n, err := f.ReadAt(b, at); err != nil && !(errors.Is(err, io.EOF) && n == len(b)) {
		q.log.Error("read snapshot", "snapshot", id, "err", err)
		return kerr.UnknownServerError.Code
	}
	out.Size, out.Position, out.UnalignedRecords = size, at, b
	return 0
}

// snapshotFetch is a snapshot on its way from the leader.
type snapshotFetch struct {
	id   SnapshotID
	name string
	file env.File
	pos  int64
}

func (q *Quorum) beginSnapshotFetch(f *follower, id SnapshotID) error {
	if floor := max(q.highWatermark, q.disk.committed()); id.EndOffset < floor {
		return fmt.Errorf("snapshot %s ends below the high watermark %d", id, floor)
	}
	if q.disk.hasSnapshot(id) && id != bootstrapID {
		return q.adoptSnapshot(id)
	}
	var random [8]byte
	q.env.Rand().Read(random[:])
	name := filepath.Join(q.disk.dir, id.String()+"-"+hex.EncodeToString(random[:])+snapshotSuffix+partSuffix)
	file, err := q.env.FS().Open(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o400)
	if err != nil {
		q.fault(fmt.Errorf("create snapshot to fetch: %w", err))
		return nil
	}
	q.log.Info(fmt.Sprintf("Fetching snapshot %s from leader %d; the log ends at offset %d", id, q.election.LeaderID, q.disk.EndOffset()))
	f.snapshot = &snapshotFetch{id: id, name: name, file: file}
	return nil
}

func (q *Quorum) sendFetchSnapshot(f *follower, to destination) {
	req := protocol.NewFetchSnapshotRequest()
	req.ClusterId, req.ReplicaId, req.MaxBytes = &q.cfg.ClusterID, q.cfg.NodeID, int32(q.cfg.FetchSnapshotMaxBytes)
	p := protocol.NewFetchSnapshotRequestPartitionSnapshot()
	p.CurrentLeaderEpoch, p.Position, p.ReplicaDirectoryId = q.election.Epoch, f.snapshot.pos, q.cfg.DirectoryID
	p.SnapshotId.EndOffset, p.SnapshotId.Epoch = f.snapshot.id.EndOffset, f.snapshot.id.Epoch
	req.Topics = []protocol.FetchSnapshotRequestTopicSnapshot{{Name: Topic, Partitions: []protocol.FetchSnapshotRequestPartitionSnapshot{p}}}
	generation := q.generation
	q.send(to, req, 1, func(resp protocol.Response, err error) Event {
		r, _ := resp.(*protocol.FetchSnapshotResponse)
		return fetchSnapshotResponse{generation, to, r, err}
	})
}

type fetchSnapshotResponse struct {
	generation uint64
	to         destination
	resp       *protocol.FetchSnapshotResponse
	err        error
}

func (fetchSnapshotResponse) event() string { return "fetch-snapshot-response" }

func (q *Quorum) onFetchSnapshotResponse(ev fetchSnapshotResponse) {
	f, current := q.state.(*follower)
	if current = current && ev.generation == q.generation && f.snapshot != nil; current {
		f.fetching = false
	}
	err := ev.err
	if err == nil && (ev.resp == nil || len(ev.resp.Topics) != 1 || len(ev.resp.Topics[0].Partitions) != 1) {
		err = errors.New("the answer has not one partition")
		if ev.resp != nil && ev.resp.ErrorCode != 0 {
			err = kerr.FromCode(ev.resp.ErrorCode)
		}
	}
	if err == nil {
		p := &ev.resp.Topics[0].Partitions[0]
		var endpoints []Endpoint
		for _, e := range ev.resp.NodeEndpoints {
			if e.NodeId == p.CurrentLeader.LeaderId {
				endpoints = append(endpoints, Endpoint{q.cfg.ListenerName, e.Host, e.Port})
			}
		}
		generation := q.generation
		answered := q.common(p.ErrorCode, p.CurrentLeader.LeaderId, p.CurrentLeader.LeaderEpoch, endpoints)
		if generation != q.generation || !current {
			return
		}
		switch {
		case !answered && p.ErrorCode == 0:
			if err = q.takeSnapshotPart(f, p); err == nil {
				if generation == q.generation && !q.failed {
					q.sendFetch(f)
				}
				return
			}
		default:
			err = kerr.FromCode(p.ErrorCode)
		}
		q.log.Info(fmt.Sprintf("Abandoning the fetch of snapshot %s: %v", f.snapshot.id, err))
		q.dropFetchedSnapshot(f)
	}
	if !current {
		return
	}
	q.fetchFailed(f, ev.to, err)
}

// takeSnapshotPart appends a part; the last one makes the snapshot ours.
func (q *Quorum) takeSnapshotPart(f *follower, p *protocol.FetchSnapshotResponsePartitionSnapshot) error {
	s := f.snapshot
	switch {
	case SnapshotID{p.SnapshotId.EndOffset, p.SnapshotId.Epoch} != s.id:
		return fmt.Errorf("the answer is of snapshot %d-%d", p.SnapshotId.EndOffset, p.SnapshotId.Epoch)
	case p.Position != s.pos:
		return fmt.Errorf("the answer is of position %d, expected %d", p.Position, s.pos)
	case len(p.UnalignedRecords) == 0 || p.Position+int64(len(p.UnalignedRecords)) > p.Size:
		return fmt.Errorf("the answer has %d bytes at position %d of %d", len(p.UnalignedRecords), p.Position, p.Size)
	}
	if _, err := s.file.WriteAt(p.UnalignedRecords, s.pos); err != nil {
		q.fault(fmt.Errorf("write snapshot being fetched: %w", err))
		return nil
	}
	s.pos += int64(len(p.UnalignedRecords))
	q.fetched(f)
	if s.pos < p.Size {
		return nil
	}
	if err := verifySnapshot(s.file, s.id, s.pos); err != nil {
		return err
	}
	err := s.file.Sync()
	if err = errors.Join(err, s.file.Close()); err == nil {
		if err = q.env.FS().Rename(s.name, SnapshotPath(q.disk.dir, s.id)); err == nil {
			err = q.env.FS().SyncDir(q.disk.dir)
		}
	}
	if err != nil {
		q.fault(fmt.Errorf("finish snapshot %s: %w", s.id, err))
		return nil
	}
	f.snapshot = nil
	q.disk.addSnapshot(s.id)
	q.log.Info(fmt.Sprintf("Fully downloaded snapshot %s from leader %d.", s.id, q.election.LeaderID))
	return q.adoptSnapshot(s.id)
}

// verifySnapshot reads all batches. A snapshot replaces the log: it must be whole.
func verifySnapshot(file env.File, id SnapshotID, size int64) error {
	r := &SnapshotReader{id: id, file: keepOpen{file}, size: size}
	if err := r.readHead(); err != nil {
		return err
	}
	for {
		if _, ok, err := r.Next(); !ok || err != nil {
			return err
		}
	}
}

type keepOpen struct{ env.File }

func (keepOpen) Close() error { return nil }

// adoptSnapshot lets the log begin at a snapshot that is ahead of it.
func (q *Quorum) adoptSnapshot(id SnapshotID) error {
	truncated, obsolete, err := q.disk.truncateToLatestSnapshot()
	if err != nil {
		q.fault(fmt.Errorf("begin log at snapshot %s: %w", id, err))
		return nil
	}
	if !truncated {
		return fmt.Errorf("snapshot %s is not ahead of the log, which ends at offset %d of epoch %d", id, q.disk.EndOffset(), q.disk.lastEpoch())
	}
	if err := q.disk.markDeleted(obsolete); err != nil {
		q.fault(err)
		return nil
	}
	if err := q.disk.removeDeleted(obsolete); err != nil {
		q.log.Error("delete snapshots", "err", err)
	}
	q.noteWasVoter(q.highWatermark)
	if err := q.loadHistory(); err != nil {
		q.fault(err)
		return nil
	}
	q.votersChanged()
	q.followHighWatermark(id.EndOffset)
	return nil
}
