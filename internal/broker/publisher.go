package broker

import (
	"fmt"
	"log/slog"

	"github.com/ottla-io/ottla/internal/coordinator/group"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/raft"
)

// publisher makes the broker what a new image says. Order: handlers see the image, then partitions begin and end, then coordinators
// do (they need the partitions), then settings change. A new partition has a leader in Metadata before it is there, and is answered for
// with NOT_LEADER_OR_FOLLOWER meanwhile, as Kafka does; there are clients that do not try again when no leader is named.
type publisher struct {
	b         *Broker
	published func() // after the first update
	seen      bool
}

// Name is the publisher's name.
func (p *publisher) Name() string { return "BrokerMetadataPublisher" }

// OnControllerChange does nothing: channels learn of controllers from raft.
func (p *publisher) OnControllerChange(raft.LeaderAndEpoch) {}

// OnMetadataUpdate acts on a new image.
func (p *publisher) OnMetadataUpdate(d *image.Delta, img *image.Image, _ image.Manifest) {
	b := p.b
	b.img.Store(img)
	if !p.seen {
		b.env.Logger().Info(fmt.Sprintf("Publishing initial metadata at offset OffsetAndEpoch[offset=%d, epoch=%d] with metadata.version %s.",
			img.Provenance.Offset, img.Provenance.Epoch, img.Features.MetadataVersion()))
	}
	if d.Topics() != nil || d.Brokers() != nil || d.Features() != nil {
		b.replicas.Apply(d, img)
	}
	if d.Topics() != nil && b.groups != nil {
		p.groups(d, img)
	}
	if topics := topicsToReconfigure(d, img, b.id); len(topics) > 0 {
		b.replicas.ConfigsChanged(topics, img)
	}
	for _, name := range d.Features() {
		b.env.Logger().Info(fmt.Sprintf("Feature %s has been updated to version %d", name, img.Features.Level(name)))
	}
	if !p.seen {
		p.seen = true
		p.published()
	}
}

// groups tells the group coordinator which partitions of its topic it gained and lost, and which topics are gone.
func (p *publisher) groups(d *image.Delta, img *image.Image) {
	b := p.b
	var gone []group.Topic
	for _, t := range d.Topics().Deleted() {
		if t.Name == group.OffsetsTopic {
			for id, part := range t.Partitions {
				if part.Leader == b.id {
					b.groups.OnResignation(int32(id), part.LeaderEpoch)
				}
			}
		}
		gone = append(gone, group.Topic{Name: t.Name, ID: t.ID, Partitions: int32(len(t.Partitions))})
	}
	if td := offsetsTopic(d, img); td != nil {
		c := td.LocalChanges(b.id)
		for _, l := range c.Deletes {
			b.groups.OnResignation(l.ID, -1)
		}
		for _, l := range c.Leaders {
			if l.Elected() {
				b.groups.OnElection(l.ID, l.Partition.LeaderEpoch)
			}
		}
		for _, l := range c.Followers {
			b.groups.OnResignation(l.ID, l.Partition.LeaderEpoch)
		}
	}
	if len(gone) > 0 {
		b.groups.OnTopicsDeleted(gone)
	}
}

// offsetsTopic is the change of __consumer_offsets, if there is one.
func offsetsTopic(d *image.Delta, img *image.Image) *image.TopicDelta {
	t := img.Topics.ByName(group.OffsetsTopic)
	if t == nil {
		return nil
	}
	return d.Topics().Topic(t.ID)
}

// topicsToReconfigure are the topics, among those that were there before, whose effective settings may have changed: their own
// did, or those of this broker or of all brokers, on which every topic rests.
func topicsToReconfigure(d *image.Delta, img *image.Image, broker int32) []string {
	var topics []string
	all := false
	for _, r := range d.Configs() {
		switch r.Type {
		case image.ResourceTopic:
			topics = append(topics, r.Name)
		case image.ResourceBroker:
			all = all || r.Name == "" || r.Name == fmt.Sprint(broker)
		}
	}
	if all {
		topics = nil
		for t := range img.Topics.All() {
			topics = append(topics, t.Name)
		}
		return topics
	}
	n := 0
	for _, name := range topics {
		if t := img.Topics.ByName(name); t != nil && d.Base().Topics.ByID(t.ID) != nil {
			topics[n] = name
			n++
		}
	}
	return topics[:n]
}

// registrationTracker registers the broker again when the cluster comes to a metadata.version that wants to know more than the
// registration of an older one says (KIP-858).
type registrationTracker struct {
	id     int32
	resend func()
	log    *slog.Logger
}

// Name is the publisher's name.
func (t *registrationTracker) Name() string {
	return fmt.Sprintf("BrokerRegistrationTracker(id=%d)", t.id)
}

// OnControllerChange does nothing.
func (t *registrationTracker) OnControllerChange(raft.LeaderAndEpoch) {}

// OnMetadataUpdate looks at the registration when it or the metadata.version changed.
func (t *registrationTracker) OnMetadataUpdate(d *image.Delta, img *image.Image, _ image.Manifest) {
	changed := d.MetadataVersionChanged()
	for _, id := range d.Brokers() {
		changed = changed || id == t.id
	}
	reg := img.Cluster.Broker(t.id)
	if changed && reg != nil && img.Features.MetadataVersion().DirectoryAssignment() && len(reg.Directories) == 0 {
		t.log.Info("Current directory set is empty, but MV supports JBOD. Resending broker registration.")
		t.resend()
	}
}
