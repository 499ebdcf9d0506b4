// Judge asks the classes of a real Kafka about bytes. It reads and writes lines of fields parted by tabs.
//
//   Judge check            in:  name, version, bytes (hex), JSON or nothing; "record" in front: a framed metadata record
//                          out: a line for everything that Kafka sees differently, then "checked N"
//   Judge make COUNT SEED  in:  name, lowest, highest version
//                          out: name, version, bytes as any client might write them, bytes as Kafka writes them, JSON
//   Judge tables           out: error codes, APIs, features, metadata versions, metadata record types
//   Judge rewrite          in:  name, version, bytes; out: the bytes as Kafka writes them after reading
//   Judge requests         in:  key, version, bytes; out: "parsed" or the error, as the broker would see it
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.FeatureVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class Judge {
    static final String[] PACKAGES = {
        "org.apache.kafka.common.message.", "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.", "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.coordinator.transaction.generated.", "org.apache.kafka.raft.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
        "org.apache.kafka.streams.internals.generated.",
    };
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final Map<String, Class<?>> CLASSES = new HashMap<>();
    static BufferedReader in;
    static PrintWriter out;

    public static void main(String[] args) throws Exception {
        in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        out = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)));
        switch (args[0]) {
            case "check": check(); break;
            case "make": make(Integer.parseInt(args[1]), Long.parseLong(args[2])); break;
            case "tables": tables(); break;
            case "rewrite": rewrite(); break;
            case "requests": requests(); break;
            default: throw new IllegalArgumentException(args[0]);
        }
        out.flush();
        if (out.checkError()) System.exit(1);
    }

    static Class<?> find(String name) throws ClassNotFoundException {
        Class<?> known = CLASSES.get(name);
        if (known != null) return known;
        for (String p : PACKAGES) {
            for (String suffix : new String[] {"", "Data"}) {
                try {
                    Class<?> c = Class.forName(p + name + suffix);
                    if (!Message.class.isAssignableFrom(c)) continue;
                    CLASSES.put(name, c);
                    return c;
                } catch (ClassNotFoundException e) {
                    // the next package
                }
            }
        }
        throw new ClassNotFoundException("no Kafka class for " + name);
    }

    static Message read(Class<?> c, byte[] bytes, short version) throws Exception {
        ByteBuffer buf = ByteBuffer.wrap(bytes);
        Message m = (Message) c.getConstructor(Readable.class, short.class).newInstance(new ByteBufferAccessor(buf), version);
        if (buf.hasRemaining()) throw new IllegalStateException(buf.remaining() + " bytes left over");
        return m;
    }

    static byte[] write(Message m, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buf = ByteBuffer.allocate(m.size(cache, version));
        m.write(new ByteBufferAccessor(buf), cache, version);
        if (buf.hasRemaining()) throw new IllegalStateException("wrote less than its size");
        return buf.array();
    }

    static Class<?> converter(Class<?> c) {
        try {
            return Class.forName(c.getName() + "JsonConverter");
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    static void check() throws Exception {
        MetadataRecordSerde serde = new MetadataRecordSerde();
        int n = 0;
        String line;
        while ((line = in.readLine()) != null) {
            String[] f = line.split("\t", -1);
            n++;
            try {
                if (f[0].equals("record")) {
                    byte[] bytes = HexFormat.of().parseHex(f[3]);
                    ApiMessageAndVersion m = serde.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length);
                    String name = m.message().getClass().getSimpleName();
                    if (!name.equals(f[1]) || m.version() != Short.parseShort(f[2])) out.println(f[1] + "\t" + f[2] + "\tthe frame was read as " + name + " " + m.version());
                    ObjectSerializationCache cache = new ObjectSerializationCache();
                    ByteBuffer buf = ByteBuffer.allocate(serde.recordSize(m, cache));
                    serde.write(m, cache, new ByteBufferAccessor(buf));
                    if (!Arrays.equals(buf.array(), bytes)) out.println(f[1] + "\t" + f[2] + "\tKafka frames " + HexFormat.of().formatHex(buf.array()) + " for " + f[3]);
                    continue;
                }
                short version = Short.parseShort(f[1]);
                byte[] bytes = HexFormat.of().parseHex(f[2]);
                Class<?> c = find(f[0]);
                Message m = read(c, bytes, version);
                byte[] again = write(m, version);
                if (!Arrays.equals(bytes, again)) out.println(f[0] + "\t" + version + "\tKafka writes " + HexFormat.of().formatHex(again) + " for " + f[2]);
                Class<?> conv = converter(c);
                if (f[3].isEmpty() || conv == null) continue;
                Object j = conv.getMethod("read", JsonNode.class, short.class).invoke(null, MAPPER.readTree(f[3]), version);
                if (!m.equals(j)) out.println(f[0] + "\t" + version + "\tKafka read " + m + " for " + j);
            } catch (Throwable t) {
                out.println(f[0] + "\t" + f[1] + "\t" + cause(t) + " in " + line);
            }
        }
        out.println("checked " + n);
    }

    static Throwable cause(Throwable t) {
        while (t instanceof InvocationTargetException && t.getCause() != null) t = t.getCause();
        return t;
    }

    static void make(int count, long seed) throws Exception {
        Random r = new Random(seed);
        String line;
        while ((line = in.readLine()) != null) {
            String[] f = line.split("\t", -1);
            Class<?> c = find(f[0]);
            Schema[] schemas = (Schema[]) c.getField("SCHEMAS").get(null);
            for (short v = Short.parseShort(f[1]); v <= Short.parseShort(f[2]); v++) {
                for (int i = 0; i < count; i++) {
                    // Written by the generic classes, not by the generated one: tagged fields at their defaults too.
                    Struct s = struct(r, schemas[v]);
                    ByteBuffer buf = ByteBuffer.allocate(s.sizeOf());
                    s.writeTo(buf);
                    Message m = read(c, buf.array(), v);
                    Class<?> conv = converter(c);
                    Object json = conv == null ? "" : json(conv, c, m, v);
                    out.println(f[0] + "\t" + v + "\t" + HexFormat.of().formatHex(buf.array()) + "\t" + HexFormat.of().formatHex(write(m, v)) + "\t" + json);
                }
            }
        }
    }

    static Object json(Class<?> conv, Class<?> c, Message m, short v) throws Exception {
        return conv.getMethod("write", c, short.class, boolean.class).invoke(null, m, v, false);
    }

    static Struct struct(Random r, Schema schema) {
        Struct s = new Struct(schema);
        for (BoundField f : schema.fields()) s.set(f, value(r, f.def.type, false));
        return s;
    }

    static Object value(Random r, Type t, boolean tagged) {
        if (t.isNullable() && !tagged && r.nextInt(5) == 0) return null;
        if (t instanceof TaggedFields) {
            Map<Integer, Object> tags = new TreeMap<>();
            for (Map.Entry<Integer, Field> e : ((TaggedFields) t).fields().entrySet()) {
                if (r.nextInt(3) == 0) continue;
                Field f = e.getValue();
                Object v = r.nextInt(4) == 0 && f.hasDefaultValue && f.defaultValue != null ? f.defaultValue : value(r, f.type, true);
                tags.put(e.getKey(), v);
            }
            return tags;
        }
        if (t.isArray()) {
            Object[] a = new Object[r.nextInt(4)];
            for (int i = 0; i < a.length; i++) a[i] = value(r, t.arrayElementType().get(), true);
            return a;
        }
        if (t instanceof Schema) return struct(r, (Schema) t);
        byte[] b = new byte[r.nextInt(20) == 0 ? 200 : r.nextInt(9)];
        r.nextBytes(b);
        switch (((Type.DocumentedType) t).typeName()) {
            case "BOOLEAN": return r.nextBoolean();
            case "INT8": return (byte) number(r);
            case "INT16": return (short) number(r);
            case "UINT16": return (int) number(r) & 0xffff;
            case "INT32": return (int) number(r);
            case "UINT32": return number(r) & 0xffffffffL;
            case "INT64": return number(r);
            case "FLOAT64": return r.nextInt(1000) / 8.0;
            case "UUID": return new Uuid(number(r), number(r));
            case "STRING": case "COMPACT_STRING": case "NULLABLE_STRING": case "COMPACT_NULLABLE_STRING":
                return r.nextInt(9) == 0 ? "" : r.nextInt(9) == 0 ? "häßlich€".repeat(20) : "k" + r.nextInt();
            case "BYTES": case "COMPACT_BYTES": case "NULLABLE_BYTES": case "COMPACT_NULLABLE_BYTES":
                return ByteBuffer.wrap(b);
            case "RECORDS": case "COMPACT_RECORDS": case "NULLABLE_RECORDS": case "COMPACT_NULLABLE_RECORDS":
                return MemoryRecords.readableRecords(ByteBuffer.wrap(b));
            default: throw new IllegalStateException(((Type.DocumentedType) t).typeName());
        }
    }

    static long number(Random r) {
        switch (r.nextInt(5)) {
            case 0: return r.nextInt(10) - 2;
            case 1: return r.nextBoolean() ? Long.MAX_VALUE : Long.MIN_VALUE;
            default: return r.nextLong();
        }
    }

    static void tables() {
        for (Errors e : Errors.values()) out.println("error\t" + e.code() + "\t" + e.name() + "\t" + (e.exception() instanceof RetriableException));
        for (ApiKeys k : ApiKeys.values()) {
            if (k.oldestVersion() > k.latestVersion(true)) continue;
            StringBuilder on = new StringBuilder();
            for (ApiMessageType.ListenerType l : new ApiMessageType.ListenerType[] {ApiMessageType.ListenerType.BROKER, ApiMessageType.ListenerType.CONTROLLER})
                if (k.messageType.listeners().contains(l)) on.append(on.length() > 0 ? "," : "").append(l.name().toLowerCase());
            StringBuilder headers = new StringBuilder();
            for (short v = k.oldestVersion(); v <= k.latestVersion(true); v++) headers.append(v > k.oldestVersion() ? "," : "").append(k.requestHeaderVersion(v)).append("/").append(k.responseHeaderVersion(v));
            out.println("api\t" + k.id + "\t" + k.name + "\t" + k.oldestVersion() + "\t" + k.latestVersion(true) + "\t" + k.latestVersion(false) + "\t" + on + "\t" + k.forwardable + "\t" + k.clusterAction + "\t" + headers);
        }
        for (Feature f : Feature.values()) {
            if (f.name().contains("TEST") || f.name().contains("UNIT")) continue;
            for (FeatureVersion v : f.featureVersions())
                out.println("feature\t" + f.featureName() + "\t" + v.featureLevel() + "\t" + v.bootstrapMetadataVersion().featureLevel() + "\t" + v.dependencies());
        }
        for (MetadataVersion v : MetadataVersion.values()) {
            out.println("level\t" + v.featureLevel() + "\t" + v.version() + "\t" + v.isProduction() + "\t" + v.didMetadataChange()
                + "\t" + v.fetchRequestVersion() + "\t" + v.listOffsetRequestVersion() + "\t" + v.partitionRecordVersion() + "\t" + v.partitionChangeRecordVersion() + "\t" + v.registerBrokerRecordVersion()
                + "\t" + v.isScramSupported() + "\t" + v.isLeaderEpochBumpRequiredOnIsrShrink() + "\t" + v.isMetadataTransactionSupported() + "\t" + v.isDelegationTokenSupported()
                + "\t" + v.isControllerRegistrationSupported() + "\t" + v.isDirectoryAssignmentSupported() + "\t" + v.isElrSupported() + "\t" + v.isCordonedLogDirsSupported()
                + "\t" + v.isCidrAclSupported() + "\t" + v.isControllerUnregistrationSupported());
        }
        for (MetadataRecordType t : MetadataRecordType.values()) out.println("recordtype\t" + t.id() + "\t" + t.name() + "\t" + t.lowestSupportedVersion() + "\t" + t.highestSupportedVersion());
    }

    static void rewrite() throws Exception {
        String line;
        while ((line = in.readLine()) != null) {
            String[] f = line.split("\t", -1);
            short version = Short.parseShort(f[1]);
            out.println(HexFormat.of().formatHex(write(read(find(f[0]), HexFormat.of().parseHex(f[2]), version), version)));
        }
    }

    static void requests() throws Exception {
        String line;
        while ((line = in.readLine()) != null) {
            String[] f = line.split("\t", -1);
            try {
                AbstractRequest.parseRequest(ApiKeys.forId(Short.parseShort(f[0])), Short.parseShort(f[1]), new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(f[2]))));
                out.println("parsed");
            } catch (Throwable t) {
                out.println(cause(t).getClass().getSimpleName());
            }
        }
    }
}
