// Clean runs Kafka's own log and cleaner on the folder of a partition.
//
// It reads lines of words and answers each with some lines and one with a dot:
//
//   clean FOLDER NOW FIRST SLOTS KEY=VALUE...   cleans what may be cleaned from offset FIRST on, at a time NOW in ms, with a map of so
//                                               many slots, until nothing is dirty; prints the first offset that was not looked at
//   dump FOLDER NOW KEY=VALUE...                prints segments, batches and records, one a line
//
// The log counts as shut down in order, and everything in it as committed.
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Delayed;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class Clean {
    // Stopped is a clock that stands still.
    static class Stopped implements Time {
        final long now;
        Stopped(long now) { this.now = now; }
        public long milliseconds() { return now; }
        public long nanoseconds() { return System.nanoTime(); }
        public void sleep(long ms) { }
        public void waitObject(Object o, Supplier<Boolean> c, long deadline) { throw new UnsupportedOperationException(); }
        public Timer timer(long ms) { return Time.SYSTEM.timer(ms); }
    }

    // Nothing is a task that is never run.
    static class Nothing extends FutureTask<Void> implements ScheduledFuture<Void> {
        Nothing() { super(() -> null); }
        public long getDelay(TimeUnit unit) { return Long.MAX_VALUE; }
        public int compareTo(Delayed other) { return 0; }
    }

    // Never runs what is to be done later: the files of deleted segments stay.
    static class Never implements Scheduler {
        public void startup() { }
        public void shutdown() { }
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) { return new Nothing(); }
        public void resizeThreadPool(int size) { }
    }

    public static void main(String[] unused) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            run(line.split(" "));
            System.out.println(".");
            System.out.flush();
        }
    }

    static void run(String[] args) throws Exception {
        boolean clean = args[0].equals("clean");
        Time time = new Stopped(Long.parseLong(args[2]));
        Map<String, String> settings = new HashMap<>();
        for (int i = clean ? 5 : 3; i < args.length; i++) {
            String[] kv = args[i].split("=", 2);
            settings.put(kv[0], kv[1]);
        }
        UnifiedLog log = UnifiedLog.create(new File(args[1]), new LogConfig(settings), 0, Long.MAX_VALUE, new Never(), new BrokerTopicStats(), time,
            60000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 60000, new LogDirFailureChannel(1), true, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        if (clean) {
            clean(log, time, Long.parseLong(args[3]), Integer.parseInt(args[4]));
        } else {
            dump(log);
        }
        log.close();
    }

    static void clean(UnifiedLog log, Time time, long first, int slots) throws Exception {
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(24 * slots, "MD5"), 1 << 16, 1 << 20, 0.9,
            new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner-io", "bytes", time), time, (TopicPartition tp) -> { });
        while (true) {
            long bound = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
            LogToClean dirty = new LogToClean(log, first, Math.max(first, bound), false);
            if (!(dirty.cleanableRatio() > 0)) break;
            first = cleaner.clean(dirty).getKey();
        }
        System.out.println(first);
    }

    static void dump(UnifiedLog log) {
        System.out.printf("log %d %d %d%n", log.logStartOffset(), log.logEndOffset(), log.lastStableOffset());
        for (LogSegment segment : log.logSegments()) {
            System.out.printf("segment %d%n", segment.baseOffset());
            for (RecordBatch b : segment.log().batches()) {
                b.ensureValid();
                System.out.printf("batch %d %d epoch=%d producer=%d/%d/%d txn=%b control=%b type=%d codec=%d horizon=%d max=%d crc=%d%n",
                    b.baseOffset(), b.lastOffset(), b.partitionLeaderEpoch(), b.producerId(), b.producerEpoch(), b.baseSequence(), b.isTransactional(),
                    b.isControlBatch(), b.timestampType().id, b.compressionType().id, b.deleteHorizonMs().orElse(-1), b.maxTimestamp(),
                    b.compressionType().id == 0 ? b.checksum() : 0);
                for (Record r : b) {
                    System.out.printf("record %d %d %s %s %d%n", r.offset(), r.timestamp(), text(b, r.key()), text(b, r.value()), r.headers().length);
                }
            }
        }
        System.out.println("aborted " + log.collectAbortedTransactions(0, log.logEndOffset()).stream()
            .map(t -> t.producerId() + ":" + t.firstOffset()).toList());
        System.out.println("producers " + new java.util.TreeMap<>(log.activeProducersWithLastSequence()));
    }

    static String text(RecordBatch b, ByteBuffer bytes) {
        if (bytes == null) return "null";
        byte[] out = new byte[bytes.remaining()];
        bytes.duplicate().get(out);
        return b.isControlBatch() ? java.util.HexFormat.of().formatHex(out) : new String(out, StandardCharsets.UTF_8);
    }
}
