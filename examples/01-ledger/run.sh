#!/usr/bin/env bash
# The metadata log as a ledger: one node, one topic, and everything that was written down about it.
#   run.sh         with Ottla
#   run.sh kafka   with Apache Kafka 4.4.0, whose jars are in $KAFKA_LIBS (test/interop/libs.sh prints the folder)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
server=
cleanup() { [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true; rm -rf "$work"; }
trap cleanup EXIT

say() { printf '\n## %s\n' "$*"; }
port() { while :; do local p=$((20000 + RANDOM % 12000)); (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }; done; }

ottla="$work/ottla"
(cd "$here/../.." && CGO_ENABLED=0 go build -o "$ottla" ./cmd/ottla)
if [ "${1:-ottla}" = kafka ]; then
  : "${KAFKA_LIBS:?is not set: export KAFKA_LIBS=\$(test/interop/libs.sh)}"
  kafka() { java -Xmx512m -cp "$KAFKA_LIBS/*" "$@" 2>/dev/null; }
  storage() { kafka kafka.tools.StorageTool "$@"; }
  topics() { kafka org.apache.kafka.tools.TopicCommand "$@"; }
  quorum() { kafka org.apache.kafka.tools.MetadataQuorumCommand "$@"; }
  dump() { kafka org.apache.kafka.tools.DumpLogSegments "$@"; }
  start() { java -Xmx512m -cp "$KAFKA_LIBS/*" kafka.Kafka "$1" >"$work/server.log" 2>&1 & server=$!; }
else
  storage() { "$ottla" storage "$@"; }
  topics() { "$ottla" topics "$@"; }
  quorum() { "$ottla" metadata-quorum "$@"; }
  dump() { "$ottla" dump-log "$@"; }
  start() { "$ottla" server "$1" >"$work/server.log" 2>&1 & server=$!; }
fi
# Kafka has a shell of its own for this; Ottla's reads the same files.
shell() { "$ottla" metadata-shell --snapshot "$log" "$@"; }

broker=$(port) controller=$(port) data="$work/data" log="$work/data/__cluster_metadata-0"
cat >"$work/server.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$broker,CONTROLLER://127.0.0.1:$controller
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$data
offsets.topic.replication.factor=1
END

say "Format a folder, start a node, create a topic"
storage format -t Zm9ybWF0LWZhY3RzLTAwMQ -c "$work/server.properties" --standalone | tail -1 | sed "s|$work/||"
start "$work/server.properties"
until topics --bootstrap-server "127.0.0.1:$broker" --list >/dev/null 2>&1; do
  kill -0 "$server" 2>/dev/null || { cat "$work/server.log"; exit 1; }
done
topics --bootstrap-server "127.0.0.1:$broker" --create --topic orders --partitions 3

say "The quorum"
quorum --bootstrap-server "127.0.0.1:$broker" describe --status
quorum --bootstrap-server "127.0.0.1:$broker" describe --replication

say "The folder of the metadata log"
ls "$log"

say "quorum-state"
cat "$log/quorum-state"; echo

kill "$server"; wait "$server" 2>/dev/null || true
server=
dump --cluster-metadata-decoder --files "$log/00000000000000000000.log" >"$work/dump"

say "The first batch: who leads, which version of the protocol, who may vote"
awk '/^baseOffset/ { n++ } n == 1' "$work/dump" | cut -c1-200

say "Records by type"
grep -o '"type":"[A-Z_]*"' "$work/dump" | sort | uniq -c | sort -rn

say "The batch that holds the topic and its partitions"
awk '/^baseOffset/ { if (keep) exit; batch = "" } { batch = batch $0 "\n" } /"type":"TOPIC_RECORD".*"orders"/ { keep = 1 } END { printf "%s", batch }' "$work/dump" | cut -c1-300

say "ls /image"
shell ls /image
say "cat /image/topics/byName/orders/0"
shell cat /image/topics/byName/orders/0
say "cat /image/provenance"
shell cat /image/provenance
