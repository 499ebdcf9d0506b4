package servertest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Libs is the folder with the jars of Apache Kafka.
func Libs(t testing.TB) string {
	t.Helper()
	libs := os.Getenv("KAFKA_LIBS")
	if libs == "" {
		t.Fatal("KAFKA_LIBS is not set: export KAFKA_LIBS=$(test/interop/libs.sh)")
	}
	if jars, _ := filepath.Glob(filepath.Join(libs, "kafka-clients-*.jar")); len(jars) == 0 {
		t.Fatalf("KAFKA_LIBS=%s has no jar of Kafka", libs)
	}
	return libs
}

// Ottla runs one of our tools and returns what it printed.
func Ottla(t testing.TB, args ...string) (string, error) {
	t.Helper()
	return run(exec.Command(Binary(t), args...), "")
}

// OttlaIn is Ottla with standard input.
func OttlaIn(t testing.TB, stdin string, args ...string) (string, error) {
	t.Helper()
	return run(exec.Command(Binary(t), args...), stdin)
}

// Kafka runs a class of Kafka's that must succeed, and returns what it printed.
func Kafka(t testing.TB, class string, args ...string) string {
	t.Helper()
	return KafkaIn(t, "", class, args...)
}

// KafkaIn is Kafka with standard input.
func KafkaIn(t testing.TB, stdin, class string, args ...string) string {
	t.Helper()
	out, err := TryKafka(t, stdin, class, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", class, strings.Join(args, " "), err, tail(out, 60))
	}
	return out
}

// TryKafka runs a class of Kafka's.
func TryKafka(t testing.TB, stdin, class string, args ...string) (string, error) {
	t.Helper()
	quiet := filepath.Join(t.TempDir(), "log4j2.yaml")
	if err := os.WriteFile(quiet, []byte(strings.Replace(log4j, "level: INFO", "level: ERROR", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	java := []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.configurationFile=" + quiet, "-cp", Libs(t) + "/*", class}
	return run(exec.Command("java", append(java, args...)...), stdin)
}

// Run runs another program, which must succeed.
func Run(t testing.TB, stdin, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%s is needed: %v", name, err)
	}
	out, err := run(exec.Command(name, args...), stdin)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, tail(out, 60))
	}
	return out
}

func run(cmd *exec.Cmd, stdin string) (string, error) {
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &out
	err := cmd.Run()
	return out.String(), err
}
