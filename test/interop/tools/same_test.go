//go:build interop

package tools

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/test/interop/servertest"
)

// story is what both clusters go through, a command a line. What Kafka's tools print is the same, where the cluster is Ottla's and where it is
// Apache Kafka's. Marks in front of a command: ~ waits until it prints the same, % prints its lines in any order, # prints numbers that are of no
// account (offsets, times, ports). What an error says is up to each server: only that there is one, and its class, is compared.
const story = `
topics --bootstrap-server $B --create --topic orders --replica-assignment 1:2:3,2:3:1,3:1:2 --config retention.ms=3600000
topics --bootstrap-server $B --create --topic prices --replica-assignment 1:2 --config cleanup.policy=compact
topics --bootstrap-server $B --create --topic orders
topics --bootstrap-server $B --create --topic small --partitions 2 --replication-factor 4
topics --bootstrap-server $B --create --topic bad --config retention.ms=soon
topics --bootstrap-server $B --create --topic 'no topic'
topics --bootstrap-server $B --list
~ topics --bootstrap-server $B --describe
topics --bootstrap-server $B --describe --topic prices --topics-with-overrides
topics --bootstrap-server $B --describe --under-replicated-partitions
topics --bootstrap-server $B --describe --topic nothing
topics --bootstrap-server $B --alter --topic prices --partitions 2 --replica-assignment 1:2,2:1
topics --bootstrap-server $B --alter --topic prices --partitions 1
~ topics --bootstrap-server $B --describe --topic prices
topics --bootstrap-server $B --create --topic gone --replica-assignment 1
topics --bootstrap-server $B --delete --topic gone
topics --bootstrap-server $B --delete --topic gone
topics --bootstrap-server $B --delete --topic gone --if-exists
topics --bootstrap-server $B --list
configs --bootstrap-server $B --describe --entity-type topics --entity-name orders
configs --bootstrap-server $B --describe --all --entity-type topics --entity-name prices
configs --bootstrap-server $B --describe --entity-type topics
configs --bootstrap-server $B --alter --entity-type topics --entity-name orders --add-config max.message.bytes=2000000,cleanup.policy=[compact,delete] --delete-config retention.ms
configs --bootstrap-server $B --alter --entity-type topics --entity-name orders --add-config no.such.thing=1
configs --bootstrap-server $B --alter --entity-type topics --entity-name orders --add-config retention.ms=soon
configs --bootstrap-server $B --alter --entity-type topics --entity-name orders --delete-config retention.bytes
configs --bootstrap-server $B --alter --entity-type topics --entity-name nothing --add-config retention.ms=5
~ configs --bootstrap-server $B --describe --entity-type topics --entity-name orders
configs --bootstrap-server $B --describe --topic nothing
configs --bootstrap-server $B --alter --entity-type brokers --entity-default --add-config log.cleaner.threads=2
configs --bootstrap-server $B --alter --entity-type brokers --entity-name 2 --add-config log.cleaner.threads=1,background.threads=8
configs --bootstrap-server $B --alter --entity-type brokers --entity-name 2 --add-config log.dirs=/tmp
configs --bootstrap-server $B --alter --entity-type brokers --entity-name two --add-config log.cleaner.threads=1
configs --bootstrap-server $B --describe --entity-type brokers --entity-name two
~ configs --bootstrap-server $B --describe --entity-type brokers --entity-default
~ configs --bootstrap-server $B --describe --entity-type brokers --entity-name 2
~ configs --bootstrap-server $B --describe --entity-type brokers
configs --bootstrap-server $B --describe --all --entity-type brokers --entity-name 2
configs --bootstrap-controller $C --describe --entity-type brokers --entity-name 101
configs --bootstrap-controller $C --describe --all --entity-type brokers --entity-name 101
configs --bootstrap-controller $C --describe --entity-type topics --entity-name orders
configs --bootstrap-controller $C --alter --entity-type brokers --entity-default --add-config log.cleaner.threads=1
~ configs --bootstrap-server $B --describe --entity-type brokers --entity-default
configs --bootstrap-server $B --alter --entity-type users --entity-name u --add-config producer_byte_rate=100,consumer_byte_rate=7
configs --bootstrap-server $B --alter --entity-type users --entity-name u --entity-type clients --entity-name c --add-config request_percentage=12.5
configs --bootstrap-server $B --alter --entity-type users --entity-default --add-config producer_byte_rate=1000
configs --bootstrap-server $B --alter --entity-type clients --entity-name c --add-config producer_byte_rate=none
configs --bootstrap-server $B --alter --entity-type ips --entity-name 127.0.0.1 --add-config connection_creation_rate=5
configs --bootstrap-server $B --alter --entity-type ips --entity-name 127.0.0.1 --add-config producer_byte_rate=5
~ % configs --bootstrap-server $B --describe --entity-type users
configs --bootstrap-server $B --describe --entity-type users --entity-name u
configs --bootstrap-server $B --describe --entity-type users --entity-name u --entity-type clients
configs --bootstrap-server $B --describe --entity-type clients --entity-default
configs --bootstrap-server $B --describe --ip 127.0.0.1
configs --bootstrap-server $B --describe --user-defaults
configs --bootstrap-server $B --alter --entity-type users --entity-name s --add-config SCRAM-SHA-256=[iterations=4096,password=secret]
configs --bootstrap-server $B --alter --entity-type users --entity-name s --add-config SCRAM-SHA-256=[iterations=4,password=secret]
~ configs --bootstrap-server $B --describe --entity-type users --entity-name s
configs --bootstrap-server $B --alter --entity-type users --entity-name s --delete-config SCRAM-SHA-256
configs --bootstrap-server $B --alter --entity-type users --entity-name s --delete-config SCRAM-SHA-256
configs --bootstrap-server $B --alter --entity-type groups --entity-name g --add-config consumer.session.timeout.ms=50000
~ configs --bootstrap-server $B --describe --entity-type groups --entity-name g
configs --bootstrap-server $B --alter --entity-type groups --entity-name g --add-config consumer.session.timeout.ms=1
configs --bootstrap-server $B --alter --entity-type client-metrics --entity-name m --add-config interval.ms=1000,metrics=[a,b]
~ configs --bootstrap-server $B --describe --entity-type client-metrics --entity-name m
configs --bootstrap-server $B --describe --entity-type client-metrics
configs --bootstrap-server $B --alter --entity-type client-metrics --entity-name m --add-config interval.ms=1
configs --bootstrap-server $B --alter --entity-type broker-loggers --entity-name 1 --add-config kafka=DEBUG
configs --bootstrap-server $B
configs --bootstrap-server $B --describe
client-metrics --bootstrap-server $B --list
acls --bootstrap-server $B --list
acls --bootstrap-server $B --add --allow-principal User:a --operation Read --topic orders
acls --bootstrap-server $B --remove --force --topic orders
# features --bootstrap-server $B describe
# features --bootstrap-controller $C describe
features --bootstrap-server $B upgrade --feature transaction.version=1 --dry-run
features --bootstrap-server $B downgrade --feature transaction.version=1
features --bootstrap-server $B downgrade --feature transaction.version=1 --unsafe
features --bootstrap-server $B upgrade --feature transaction.version=2
features --bootstrap-server $B upgrade --metadata 4.4-IV2
features --bootstrap-server $B upgrade --metadata 9.9
features --bootstrap-server $B downgrade --metadata 3.9 --dry-run
features --bootstrap-server $B downgrade --metadata 4.2 --dry-run
features --bootstrap-server $B upgrade --release-version 4.3 --dry-run
features --bootstrap-server $B upgrade --feature nothing=2
features --bootstrap-server $B disable --feature share.version --dry-run
features --bootstrap-server $B disable --feature nothing
features --bootstrap-server $B version-mapping
features --bootstrap-server $B version-mapping --release-version 3.9
features --bootstrap-server $B version-mapping --release-version 1.0
features --bootstrap-server $B feature-dependencies --feature transaction.version=2 --feature metadata.version=20
features --bootstrap-server $B feature-dependencies --feature group.version=1
# features --bootstrap-server $B describe
cluster cluster-id --bootstrap-server $B
cluster cluster-id --bootstrap-controller $C
# cluster list-endpoints --bootstrap-server $B
# cluster list-endpoints --bootstrap-server $B --include-fenced-brokers
# cluster list-endpoints --bootstrap-controller $C
cluster unregister --bootstrap-server $B --id 9
delegation-tokens --bootstrap-server $B --describe --command-config FILES/empty
delegation-tokens --bootstrap-server $B --create --max-life-time-period -1 --command-config FILES/empty
# metadata-quorum --bootstrap-server $B describe --status
# metadata-quorum --bootstrap-controller $C describe --status
# metadata-quorum --bootstrap-server $B describe --replication
metadata-quorum --bootstrap-server $B remove-controller --controller-id 101 --controller-directory-id AAAAAAAAAAAAAAAAAAAA99
metadata-quorum --bootstrap-server $B remove-controller --controller-id 102 --controller-directory-id AAAAAAAAAAAAAAAAAAAA99 --dry-run
% broker-api-versions --bootstrap-server $B
topics --bootstrap-server $B --create --topic lines --replica-assignment 1:2
# producer-performance --bootstrap-server $B --topic lines --num-records 10 --record-size 10 --throughput -1
~ % log-dirs --bootstrap-server $B --describe
~ % log-dirs --bootstrap-server $B --describe --broker-list 1,2 --topic-list prices,orders
~ % log-dirs --bootstrap-server $B --describe --broker-list 1,7
delete-records --bootstrap-server $B --offset-json-file FILES/delete
leader-election --bootstrap-server $B --election-type preferred --all-topic-partitions
leader-election --bootstrap-server $B --election-type preferred --topic orders --partition 0
leader-election --bootstrap-server $B --election-type unclean --path-to-json-file FILES/elect
leader-election --bootstrap-server $B --election-type preferred --topic nothing --partition 0
reassign-partitions --bootstrap-server $B --generate --topics-to-move-json-file FILES/move --broker-list 3
reassign-partitions --bootstrap-server $B --execute --reassignment-json-file FILES/plan --throttle 1000000
~ reassign-partitions --bootstrap-server $B --verify --reassignment-json-file FILES/plan
reassign-partitions --bootstrap-server $B --list
reassign-partitions --bootstrap-server $B --cancel --reassignment-json-file FILES/plan
reassign-partitions --bootstrap-server $B --execute --reassignment-json-file FILES/wrong
~ topics --bootstrap-server $B --describe --topic prices
cluster unregister --bootstrap-server $B --id 3
`

// files are what the commands of the story are given.
var files = map[string]string{
	"empty":  "",
	"delete": `{"partitions": [{"topic": "lines", "partition": 0, "offset": 5}, {"topic": "prices", "partition": 1, "offset": 100000}], "version": 1}`,
	"elect":  `{"partitions": [{"topic": "orders", "partition": 0}, {"topic": "nothing", "partition": 1}]}`,
	"move":   `{"topics": [{"topic": "prices"}], "version": 1}`,
	"plan":   `{"version": 1, "partitions": [{"topic": "prices", "partition": 0, "replicas": [3, 1], "log_dirs": ["any", "any"]}, {"topic": "prices", "partition": 1, "replicas": [3]}]}`,
	"wrong":  `{"version": 1, "partitions": [{"topic": "prices", "partition": 0, "replicas": [3, 9]}]}`,
}

func TestSame(t *testing.T) {
	jvm := servertest.StartJVM(t)
	kafka := kafkaSide(t, jvm, "log.cleaner.dedupe.buffer.size=4194304")
	ours := ottlaSide(t, jvm, "log.cleaner.dedupe.buffer.size=4194304")
	for name, text := range files {
		kafka.file(t, name, text)
		ours.file(t, name, text)
	}
	tell(t, kafka, ours, story)
}

func tell(t *testing.T, kafka, ours *side, story string) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(story)) {
		command := strings.TrimLeft(line, "~%# ")
		marks := strings.TrimSuffix(line, command)
		command = strings.TrimSpace(command)
		both := func() (want, got string) {
			return printed(kafka, kafka.java(t, command), marks), printed(ours, ours.java(t, command), marks)
		}
		want, got := both()
		waits := func() bool { return got != want || strings.Contains(want, "still in progress") }
		for until := time.Now().Add(time.Minute); strings.Contains(marks, "~") && waits() && time.Now().Before(until); {
			want, got = both()
		}
		want, got = withoutUnsupported(want, got), withoutUnsupported(got, got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n(- against Kafka, + against Ottla)\n%s", command, diff)
		}
	}
}

var (
	// errorText is what a server says of an error, behind the name of its class.
	errorText = regexp.MustCompile(`(?m)((?:org\.apache\.kafka|java)\.[\w.$]*(?:Exception|Error)):.*$`)
	// unsupported are the lines of broker-api-versions about requests that are not answered.
	unsupported = regexp.MustCompile(`(?m)^\t(\w+)\(\d+\): UNSUPPORTED`)
	// replicas are those that log-dirs names, in the order of a hash table.
	replicas = regexp.MustCompile(`\{"partition"[^}]*\}`)
	number   = regexp.MustCompile(`-?\d+(\.\d+)?`)
	blanks   = regexp.MustCompile(` +`)
)

// withoutUnsupported leaves out of an answer of broker-api-versions the requests that Ottla does not answer.
func withoutUnsupported(text, ours string) string {
	for _, m := range unsupported.FindAllStringSubmatch(ours, -1) {
		text = regexp.MustCompile(`(?m)^\t`+m[1]+`\(\d+\): .*\n`).ReplaceAllString(text, "")
	}
	return text
}

// printed is what one tool printed, without what has to differ.
func printed(s *side, o servertest.Output, marks string) string {
	text := fmt.Sprintf("exit %d\n%s--\n%s", o.Code, s.constant(o.Out), s.constant(o.Err))
	text = errorText.ReplaceAllString(text, "$1")
	if strings.Contains(marks, "#") {
		text = blanks.ReplaceAllString(number.ReplaceAllString(text, "N"), " ")
	}
	if strings.Contains(marks, "%") {
		found := replicas.FindAllString(text, -1)
		slices.Sort(found)
		text = replicas.ReplaceAllStringFunc(text, func(string) string {
			first := found[0]
			found = found[1:]
			return first
		})
		lines := strings.Split(text, "\n")
		slices.Sort(lines)
		text = strings.Join(lines, "\n")
	}
	return text
}
