import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs the command line tools of Apache Kafka one after the other in one JVM, and its servers beside them. A request is a line of words, each
 * in Base64 behind the first one, which is the verb:
 *
 *   run STDIN CLASS ARG...   answers: exit code, standard output, standard error
 *   start FILE               starts the server of a properties file, and answers when it serves
 */
public class Tools {
    static final PrintStream answers = System.out;

    public static void main(String[] args) throws Exception {
        Exit.setShutdownHookAdder((name, hook) -> { });
        Exit.setHaltProcedure(Tools::end);
        Exit.setExitProcedure(Tools::end);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            List<String> rest = new ArrayList<>();
            for (int i = 1; i < words.length; i++) {
                rest.add(new String(Base64.getDecoder().decode(words[i].substring(1)), StandardCharsets.UTF_8));
            }
            answers.println(words[0].equals("start") ? start(rest.get(0)) : run(rest));
            answers.flush();
        }
        System.exit(0);
    }

    /** The tool that runs, and what its thread waits for when it has ended: nothing behind an exit is done. */
    static volatile CompletableFuture<Integer> running = new CompletableFuture<>();
    static volatile Thread tool;

    static void end(int code, String message) {
        if (Thread.currentThread() != tool) {
            return; // a server that is told to end with the JVM
        }
        running.complete(code);
        try {
            new CountDownLatch(1).await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static String run(List<String> words) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
        CompletableFuture<Integer> code = running = new CompletableFuture<>();
        System.setIn(new ByteArrayInputStream(words.get(0).getBytes(StandardCharsets.UTF_8)));
        PrintStream oldErr = System.err;
        PrintStream outStream = new PrintStream(out, true, "UTF-8"), errStream = new PrintStream(err, true, "UTF-8");
        System.setOut(outStream);
        System.setErr(errStream);
        Thread thread = tool = new Thread(() -> {
            try {
                Class.forName(words.get(1)).getMethod("main", String[].class).invoke(null, (Object) words.subList(2, words.size()).toArray(new String[0]));
                code.complete(0);
            } catch (java.lang.reflect.InvocationTargetException e) {
                errStream.print("Exception in thread \"main\" ");
                e.getCause().printStackTrace(errStream);
                code.complete(1);
            } catch (Throwable e) {
                e.printStackTrace(errStream);
                code.complete(99);
            }
        });
        thread.setDaemon(true);
        thread.start();
        int exit;
        try {
            exit = code.get(120, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            for (StackTraceElement frame : thread.getStackTrace()) {
                errStream.println("\tat " + frame);
            }
            exit = 98;
        }
        System.setOut(answers);
        System.setErr(oldErr);
        return exit + " " + encode(out) + " " + encode(err);
    }

    static String encode(ByteArrayOutputStream b) {
        return "-" + Base64.getEncoder().encodeToString(b.toByteArray());
    }

    static final List<KafkaRaftServer> servers = new ArrayList<>();

    static String start(String file) throws Exception {
        Properties props = new Properties();
        try (Reader reader = new FileReader(file)) {
            props.load(reader);
        }
        CompletableFuture<String> started = new CompletableFuture<>();
        new Thread(() -> {
            try {
                KafkaRaftServer server = new KafkaRaftServer(KafkaConfig.fromProps(props, false), Time.SYSTEM);
                servers.add(server);
                server.startup();
                started.complete("0 - -");
            } catch (Throwable e) {
                ByteArrayOutputStream text = new ByteArrayOutputStream();
                e.printStackTrace(new PrintStream(text, true));
                started.complete("1 - " + encode(text));
            }
        }).start();
        return started.get(120, TimeUnit.SECONDS);
    }
}
