//go:build interop

package controller

import (
	"strings"

	"github.com/ottla-io/ottla/internal/protocol"
)

func questions() []question {
	long := strings.Repeat("n", 249)
	return []question{
		{"create", 7, create(false, "a partitions=3 rf=1 retention.ms=1000 cleanup.policy=compact\nb\nc.d\nc_d\n"+long)},
		{"create validate only", 7, create(true, "e partitions=1 rf=1 min.insync.replicas=2 compression.type=zstd")},
		{"create version 4", 4, create(false, "old partitions=1 rf=1")},
		{"create names", 7, create(false, "a\n\"\"\n.\n..\nx/y\nc.d\nc-d\n"+long+"n\n__cluster_metadata\ntwice\ntwice\nä")},
		{"create collisions", 7, create(true, "c_d\nc.d\na\nc.x_d\nc_x.d")},
		{"create counts", 7, create(false, "r0 rf=0\nr2 rf=-2\nr3 rf=3\np0 partitions=0\np5 partitions=-5\nboth partitions=0 rf=0")},
		{"create assignments", 7, create(false, "m1 assign=0:1;1:1\nm2 assign=0:1;2:1\nm3 assign=0:9\nm4 assign=0:1,1\nm5 assign=0:\nm6 assign=0:1;1:1,1\n"+
			"m7 assign=0:1;0:1\nm8 assign=0:1 rf=1\nm9 assign=0:1 partitions=1\nm10 assign=1:1\nm11 assign=-1:1")},
		{"create settings", 7, create(false, "k1 retention.ms=-2\nk2 segment.bytes=1000\nk3 no.such.setting=1\nk4 null:retention.ms null:segment.bytes\n"+
			"k5 min.compaction.lag.ms=10 max.compaction.lag.ms=5\nk6 remote.storage.enable=true\nk7 cleanup.policy=nothing\nk8 compression.type=x\n"+
			"k9 retention.ms=abc\nk10 min.cleanable.dirty.ratio=2\nk11 preallocate=maybe\nk12 cleanup.policy=\nk13 compression.gzip.level=0\n"+
			"k14 message.timestamp.type=never\nk15 unclean.leader.election.enable=1\nk16 leader.replication.throttled.replicas=x\nk17 min.insync.replicas=0\n"+
			"k18 segment.ms=0\nk19 retention.ms=9223372036854775808\nk20 flush.messages=0")},
		{"create settings accepted", 7, create(true, "l1 cleanup.policy=delete,compact\nl2 retention.ms=-1 retention.bytes=-1\nl3 leader.replication.throttled.replicas=0:1,1:1\n"+
			"l4 leader.replication.throttled.replicas=*\nl5 internal.segment.bytes=1000\nl6 local.retention.ms=5")},
		{"create 10001 partitions", 7, create(false, "big partitions=10001 rf=1")},
		{"create 10000 partitions", 7, create(false, "big partitions=10000 rf=1")},
		{"create nothing", 7, protocol.NewCreateTopicsRequest()},

		{"grow", 3, grow("a 4\nb 2\nb2 3\nc.d 1\ntwice 2\ntwice 3")},
		{"grow assigned", 3, grow("a 6 1;1\nb 4 1")},
		{"grow badly", 3, grow("b 3 9\nold 2 1,1\na 7 1,1")},
		{"grow too much", 3, grow("b 20000")},
		{"grow to nothing", 3, grow("b 0\na -1")},

		{"alter", 1, alter("topic a set retention.ms=5\ntopic a append cleanup.policy=delete\ntopic b set segment.bytes=3000000")},
		{"alter half bad", 1, alter("topic a set retention.ms=7\ntopic a set segment.bytes=1")},
		{"alter lists", 1, alter("topic a append retention.ms=5")},
		{"alter lists that are there", 1, alter("topic a append cleanup.policy=delete\ntopic b subtract cleanup.policy=compact")},
		{"alter the last away", 1, alter("topic b subtract cleanup.policy=delete")},
		{"alter unknown", 1, alter("topic a set nothing=1\ntopic nothing set retention.ms=1\ntopic x/y set retention.ms=1\ntopic \"\" set retention.ms=1")},
		{"alter delete unknown", 1, alter("topic a delete nothing")},
		{"alter null", 1, alter("topic a null retention.ms")},
		{"alter twice", 1, alter("topic a set retention.ms=1\ntopic a set retention.ms=2")},
		{"alter cluster", 1, alter("broker \"\" set log.retention.ms=123456")},
		{"alter min isr", 1, alter("broker \"\" delete min.insync.replicas")},
		{"alter groups", 1, alter("group g1 set consumer.session.timeout.ms=50000\ngroup g2 set consumer.session.timeout.ms=5\ngroup g3 set nothing=5\n" +
			"group \"\" set consumer.session.timeout.ms=50000\ngroup g4 set consumer.heartbeat.interval.ms=abc\ngroup g5 set share.isolation.level=none\n" +
			"group g6 set share.auto.offset.reset=latest\ngroup g7 set consumer.heartbeat.interval.ms=15000\ngroup g8 set streams.num.standby.replicas=9")},
		{"alter subscriptions", 1, alter("client-metrics m1 set interval.ms=1000\nclient-metrics m2 set interval.ms=1\nclient-metrics m3 set match=client_id=.*\n" +
			"client-metrics m4 set match=nobody=.*\nclient-metrics m5 set nothing=1\nclient-metrics m6 set match=client_id=[\nclient-metrics m7 set metrics=a,b")},
		{"alter unknown type", 1, alter("unknown x set a=b")},
		{"alter whole", 2, alterWhole("topic a set retention.ms=99")},
		{"alter whole badly", 2, alterWhole("topic a set retention.ms=-9\ntopic nothing set retention.ms=9")},
		{"settings of the cluster in an answer", 7, create(true, "after partitions=1 rf=1 retention.bytes=5")},

		{"elect", 2, elect(0, "a", 0, 1, 77)},
		{"elect unclean", 2, elect(1, "a", 0)},
		{"elect unknown", 2, elect(0, "nothing", 0)},
		{"elect all", 2, elect(0, "")},
		{"elect otherwise", 2, elect(7, "a", 0)},

		{"reassign", 1, reassign("a 0 1\na 77 1\nnothing 0 1\na 1 9\na 2 1,1\nb 0 cancel")},

		{"features", 2, features(true, "group.version 0 2")},
		{"features down", 2, features(false, "metadata.version 30 2")},
		{"features down by force", 2, features(false, "metadata.version 29 3")},
		{"features without saying so", 2, features(false, "metadata.version 30 1")},
		{"features up", 2, features(false, "metadata.version 99 1")},
		{"features unknown", 2, features(false, "nothing 1 1")},
		{"features too high", 2, features(false, "share.version 9 1")},
		{"features negative", 2, features(false, "group.version -1 2")},
		{"features up by a downgrade", 2, features(false, "group.version 1 2")},
		{"features the same", 2, features(false, "group.version 1 1")},
		{"features kraft down", 2, features(false, "kraft.version 0 2")},
		{"features odd type", 2, features(false, "group.version 1 9")},

		{"unregister nobody", 0, unregister(77)},

		{"delete", 6, remove("a", "nothing", "b", "b", "zero", "unknown-id", "both:c.d")},
		{"create again", 7, create(false, "a partitions=1 rf=1")},
		{"delete the rest", 6, remove("a", "b", "c.d", "c_d", "old", long)},
		{"delete nothing", 6, remove()},
	}
}
