package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/record"
)

// loadImage replays a metadata log: a folder (its newest snapshot and the log behind that), a snapshot or a segment.
func loadImage(from string) (*image.Image, error) {
	files, err := metadataFiles(from)
	if err != nil {
		return nil, err
	}
	img := image.Empty
	for _, name := range files {
		if img, err = replayFile(img, name); err != nil {
			return nil, err
		}
	}
	return img, nil
}

// metadataFiles are the files to be replayed, in order.
func metadataFiles(from string) ([]string, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{from}, nil
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, err
	}
	var segments []string
	newest := raft.SnapshotID{}
	for _, e := range entries {
		if id, ok := raft.ParseSnapshotName(e.Name()); ok && id.EndOffset > newest.EndOffset {
			newest = id
		}
		if strings.HasSuffix(e.Name(), ".log") {
			segments = append(segments, filepath.Join(from, e.Name()))
		}
	}
	if newest.EndOffset > 0 {
		segments = append([]string{raft.SnapshotPath(from, newest)}, segments...)
	}
	if len(segments) == 0 {
		return nil, fmt.Errorf("%s holds no metadata log; it is the folder __cluster_metadata-0 of a log directory", from)
	}
	return segments, nil
}

// replayFile adds what a file says to an image; offsets that the image has already are left out.
func replayFile(img *image.Image, name string) (*image.Image, error) {
	r, err := openBatches(name, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	id, isSnapshot := raft.ParseSnapshotName(filepath.Base(name))
	d := image.NewDelta(img)
	p := img.Provenance
	for {
		b, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && !b.IsControl() && (isSnapshot || b.LastOffset() > img.Provenance.Offset) {
			err = replayMetadata(d, b)
		}
		if err != nil {
			return nil, err
		}
		if !isSnapshot && b.LastOffset() > p.Offset {
			p = image.Provenance{Offset: b.LastOffset(), Epoch: b.LeaderEpoch(), Time: b.MaxTimestamp(), BatchAligned: true}
		}
	}
	if isSnapshot {
		p = image.Provenance{Offset: id.EndOffset - 1, Epoch: id.Epoch, Time: p.Time, BatchAligned: true}
	}
	return d.Apply(p), nil
}

func replayMetadata(d *image.Delta, b record.Batch) error {
	it := b.Iter(nil)
	var r record.Record
	for it.Next(&r) {
		rec, _, err := metadata.ParseRecord(slices.Clone(r.Value))
		if err == nil {
			err = d.Replay(rec)
		}
		if err != nil {
			return fmt.Errorf("record at offset %d: %w", r.Offset, err)
		}
	}
	return it.Err()
}

// imageTree is an image as folders and files, as Kafka's shell shows it.
func imageTree(img *image.Image) *entry {
	root := folder()
	local := root.add("local", folder())
	local.add("version", file(kafkaVersion))
	i := root.add("image", folder())
	p := img.Provenance
	i.add("provenance", file(fmt.Sprintf("MetadataProvenance(lastContainedOffset=%d, lastContainedEpoch=%d, lastContainedLogTimeMs=%d, isOffsetBatchAligned=%t)",
		p.Offset, p.Epoch, p.Time, p.BatchAligned)))
	features := i.add("features", folder())
	for name, level := range img.Features.All() {
		text := strconv.Itoa(int(level))
		if name == metadata.FeatureMetadata {
			name, text = "metadataVersion", img.Features.MetadataVersion().String()
		}
		features.add(name, file(text))
	}
	clusterTree(i.add("cluster", folder()), img)
	topicsTree(i.add("topics", folder()), img)
	configsTree(i.add("configs", folder()), img)
	i.add("producerIds", folder()).add("nextProducerId", file(strconv.FormatInt(img.ProducerIDs.Next, 10)))
	quotas := i.add("clientQuotas", folder())
	for q := range img.ClientQuotas.All() {
		quotas.add(fmt.Sprint(q.Entity), file(fmt.Sprint(q.Values)))
	}
	scram := i.add("scram", folder())
	for c := range img.Scram.All() {
		scram.add(c.Name, file(fmt.Sprintf("mechanism=%d, iterations=%d", c.Mechanism, c.Iterations)))
	}
	acls := i.add("acls", folder()).add("byId", folder())
	for a := range img.ACLs.All() {
		acls.add(a.Id.String(), file(fmt.Sprintf("%+v", *a)))
	}
	i.add("delegationToken", folder())
	return root
}

func clusterTree(dir *entry, img *image.Image) {
	brokers, controllers := dir.add("brokers", folder()), dir.add("controllers", folder())
	for b := range img.Cluster.Brokers() {
		brokers.add(strconv.Itoa(int(b.ID)), file(brokerText(b)))
	}
	for c := range img.Cluster.Controllers() {
		controllers.add(strconv.Itoa(int(c.ID)), file(fmt.Sprintf("ControllerRegistration(id=%d, incarnationId=%s, listeners=%v)", c.ID, c.IncarnationID, c.Endpoints)))
	}
}

func brokerText(b *image.Broker) string {
	rack := "Optional.empty"
	if b.Rack != nil {
		rack = "Optional[" + *b.Rack + "]"
	}
	return fmt.Sprintf("BrokerRegistration(id=%d, epoch=%d, incarnationId=%s, listeners=%v, rack=%s, fenced=%t, inControlledShutdown=%t, directories=%v)",
		b.ID, b.Epoch, b.IncarnationID, b.Endpoints, rack, b.Fenced, b.InControlledShutdown, b.Directories)
}

func topicsTree(dir *entry, img *image.Image) {
	byName, byID := dir.add("byName", folder()), dir.add("byId", folder())
	for t := range img.Topics.All() {
		topic := folder()
		topic.add("name", file(t.Name))
		topic.add("id", file(t.ID.String()))
		for n, p := range t.Partitions {
			topic.add(strconv.Itoa(n), file(partitionText(p)))
		}
		byName.add(t.Name, topic)
		byID.add(t.ID.String(), topic)
	}
}

// partitionText is how Kafka prints a partition.
func partitionText(p *image.Partition) string {
	recovery := "RECOVERED"
	if p.LeaderRecoveryState != 0 {
		recovery = "RECOVERING"
	}
	dirs := make([]string, len(p.Directories))
	for i, d := range p.Directories {
		dirs[i] = d.String()
	}
	return fmt.Sprintf("PartitionRegistration(replicas=%s, directories=[%s], isr=%s, removingReplicas=%s, addingReplicas=%s, elr=%s, lastKnownElr=%s, leader=%d, leaderRecoveryState=%s, leaderEpoch=%d, partitionEpoch=%d)",
		idsText(p.Replicas), strings.Join(dirs, ", "), idsText(p.ISR), idsText(p.RemovingReplicas), idsText(p.AddingReplicas), idsText(p.ELR), idsText(p.LastKnownELR),
		p.Leader, recovery, p.LeaderEpoch, p.PartitionEpoch)
}

func idsText(ids []int32) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.Itoa(int(id))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

var resourceNames = map[int8]string{image.ResourceTopic: "TOPIC", image.ResourceBroker: "BROKER"}

func configsTree(dir *entry, img *image.Image) {
	for resource, settings := range img.Configs.All() {
		kind := resourceNames[resource.Type]
		if kind == "" {
			kind = strconv.Itoa(int(resource.Type))
		}
		e := dir.add(kind+":"+resource.Name, folder())
		for key, value := range settings {
			e.add(key, file(value))
		}
	}
}
