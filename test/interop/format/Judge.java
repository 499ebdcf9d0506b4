import java.io.*;
import java.nio.file.*;
import java.util.*;

import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.common.utils.Utils;
import org.slf4j.LoggerFactory;

/**
 * Reads one request per line: the folder of the configuration, a tab, then "verify" or the arguments of the storage tool, tabs between
 * them. Answers each with the lines of standard output and error behind "out:" and "err:", and the exit code behind "exit:".
 */
public class Judge {
    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
            PrintStream o = new PrintStream(out, true), e = new PrintStream(err, true);
            System.setOut(o);
            System.setErr(e);
            int code = 1;
            try {
                if (words[1].equals("verify")) {
                    Properties p = Utils.loadProps(words[0] + "/server.properties");
                    KafkaRaftServer.initializeLogDirs(new KafkaConfig(p), LoggerFactory.getLogger(Judge.class), "");
                    code = 0;
                } else {
                    code = StorageTool.execute(words[1].isEmpty() ? new String[0] : Arrays.copyOfRange(words, 1, words.length), o);
                }
            } catch (Throwable t) {
                e.println(t.getMessage());
            }
            o.flush();
            e.flush();
            print(answers, "out:", out.toString());
            print(answers, "err:", err.toString());
            answers.println("exit:" + code);
            answers.flush();
        }
        System.exit(0);
    }

    private static void print(PrintStream to, String prefix, String text) {
        for (String line : text.split("\n")) {
            if (!line.isEmpty()) to.println(prefix + line);
        }
    }
}
