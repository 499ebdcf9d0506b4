package format

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/storage"
)

const someID, otherID = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"

// settings are those of a broker and controller with the log directories /a and /b.
func settings(t *testing.T, more ...string) *config.Node {
	t.Helper()
	lines := append([]string{
		"process.roles=broker,controller", "node.id=1", "controller.quorum.bootstrap.servers=localhost:9093",
		"listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093", "controller.listener.names=CONTROLLER", "log.dirs=/data/a,/data/b",
	}, more...)
	entries, _ := config.ParseProperties("", []byte(strings.Join(lines, "\n")))
	cfg, err := config.New(entries)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// inWorld runs fn on a fresh machine.
func inWorld(t *testing.T, fn func(n *sim.Node)) {
	t.Helper()
	w := sim.NewWorld(1, sim.Options{})
	n := w.NewNode("n")
	n.Do("test", func() { fn(n) })
	w.RunFor(time.Second)
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
}

func formatted(res *Result) string {
	var out []string
	for _, f := range res.Formatted {
		out = append(out, f.Path+": "+f.Kind)
	}
	return strings.Join(out, "; ")
}

func TestVotersOfTheSnapshot(t *testing.T) {
	for _, c := range []struct {
		name      string
		settings  []string
		o         Options
		formatted string
		snapshot  string
	}{
		{
			"standalone", nil, Options{Standalone: true},
			"/data/a: dynamic metadata voter directory; /data/b: data directory", "kraft.version 1, voters (1 of a@localhost:9093)",
		},
		{
			"standalone, advertised elsewhere", []string{"advertised.listeners=PLAINTEXT://h:9092,CONTROLLER://h.example.com:19093"}, Options{Standalone: true},
			"/data/a: dynamic metadata voter directory; /data/b: data directory", "kraft.version 1, voters (1 of a@h.example.com:19093)",
		},
		{
			"standalone on all interfaces", []string{"process.roles=controller", "listeners=CONTROLLER://0.0.0.0:9093"}, Options{Standalone: true},
			"/data/a: dynamic metadata voter directory; /data/b: data directory", "kraft.version 1, voters (1 of a@localhost:9093)",
		},
		{
			"standalone with an IPv6 address", []string{"process.roles=controller", "listeners=CONTROLLER://[::1]:9093"}, Options{Standalone: true},
			"/data/a: dynamic metadata voter directory; /data/b: data directory", "kraft.version 1, voters (1 of a@::1:9093)",
		},
		{
			"given", nil, Options{InitialControllers: "2@[::2]:2:" + otherID + ",1@h:1:" + someID},
			"/data/a: dynamic metadata voter directory; /data/b: data directory", "kraft.version 1, voters (1 of a@h:1, 2@::2:2)",
		},
		{
			"given, without this node", []string{"metadata.log.dir=/data/m"}, Options{InitialControllers: "2@h:2:" + otherID},
			"/data/a: data directory; /data/b: data directory; /data/m: dynamic metadata directory", "kraft.version 1, voters (2@h:2)",
		},
		{"none", nil, Options{NoInitialControllers: true}, "/data/a: metadata directory; /data/b: data directory", "kraft.version 1"},
		{"static", []string{"controller.quorum.voters=1@localhost:9093"}, Options{}, "/data/a: metadata directory; /data/b: data directory", "kraft.version 0"},
		{
			"broker", []string{"process.roles=broker", "node.id=5", "listeners=PLAINTEXT://localhost:9092", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}, Options{},
			"/data/a: metadata directory; /data/b: data directory", "no snapshot",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(n *sim.Node) {
				c.o.Config, c.o.ClusterID, c.o.Now = settings(t, c.settings...), "cluster", n.Now()
				res, err := Format(n.FS(), n.Rand(), c.o)
				if err != nil || formatted(res) != c.formatted {
					t.Fatalf("%s, %v", formatted(res), err)
				}
				e, err := Verify(n, c.o.Config)
				if err != nil || e.ClusterID != "cluster" {
					t.Fatalf("%+v, %v", e, err)
				}
				if got := snapshot(t, n, c.o.Config.MetadataLogDir, e); got != c.snapshot {
					t.Errorf("%s, want %s", got, c.snapshot)
				}
				if c.o.InitialControllers != "" && c.formatted[9] == 'd' && strings.Contains(c.snapshot, "of a") && e.MetadataID().String() != someID {
					t.Errorf("the directory's id is %s, it was given as %s", e.MetadataID(), someID)
				}
			})
		})
	}
}

// snapshot says what the head of the bootstrap snapshot says; "of a" is the voter in the node's own directory.
func snapshot(t *testing.T, n *sim.Node, dir string, e *Ensemble) string {
	t.Helper()
	path := raft.SnapshotPath(raft.LogDir(dir), raft.SnapshotID{})
	info, err := n.FS().Stat(path)
	if err != nil {
		return "no snapshot"
	}
	if info.Mode().Perm() != 0o400 {
		t.Errorf("mode of %s: %s", path, info.Mode())
	}
	r, err := raft.OpenSnapshot(n.FS(), raft.LogDir(dir), raft.SnapshotID{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := r.Head()
	var voters []string
	for _, v := range h.Voters.All() {
		own := ""
		if v.Key.DirectoryID == e.MetadataID() {
			own = " of a"
		}
		voters = append(voters, fmt.Sprintf("%d%s@%s:%d", v.Key.ID, own, v.Endpoints[0].Host, v.Endpoints[0].Port))
	}
	text := fmt.Sprintf("kraft.version %d", h.KRaftVersion)
	if voters != nil {
		text += ", voters (" + strings.Join(voters, ", ") + ")"
	}
	return text
}

func TestRefusedOptions(t *testing.T) {
	for _, c := range []struct {
		settings []string
		o        Options
		want     string
	}{
		{nil, Options{}, "you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers."},
		{[]string{"controller.quorum.voters=1@h:1"}, Options{Standalone: true}, "You cannot specify controller.quorum.voters and format the node with"},
		{nil, Options{InitialControllers: "1@h:1:AAAAAAAAAAAAAAAAAAAAAA"}, "Invalid reserved directory ID AAAAAAAAAAAAAAAAAAAAAA"},
		{nil, Options{InitialControllers: "1@h:1:" + someID + ",1@h:2:" + otherID}, "Node id 1 was specified more than once."},
		{nil, Options{InitialControllers: "@h:1:" + someID}, "Invalid @ at beginning"},
		{nil, Options{InitialControllers: "1@[::1"}, "no right bracket"},
		{nil, Options{InitialControllers: "99999999999@h:1:" + someID}, "Failed to parse node id"},
		{nil, Options{Standalone: true, Release: metadata.TestingVersion}, "metadata.version 4.5-IV0 is not yet stable."},
		{nil, Options{Standalone: true, Features: map[string]int16{"x": 1}}, "Unsupported feature: x. Supported features are: eligible.leader.replicas.version, group.version, kraft.version,"},
		{nil, Options{Standalone: true, Features: map[string]int16{"share.version": 3}}, "No feature:share.version with feature level 3"},
		{nil, Options{Standalone: true, Scram: []string{"SCRAM-SHA-256=[name=a,password=]"}}, "is empty"},
		{nil, Options{Standalone: true, Scram: []string{"SCRAM-SHA-256=[name=a,password=x,salt=N3E=,saltedpassword=YCE=]"}}, "only one of"},
		{nil, Options{Standalone: true, Scram: []string{"SCRAM-SHA-256=[name=a,salt=N3E=,saltedpassword=secret!]"}}, "Failed to decode given saltedPassword"},
	} {
		inWorld(t, func(n *sim.Node) {
			c.o.Config, c.o.ClusterID, c.o.Now = settings(t, c.settings...), "cluster", n.Now()
			res, err := Format(n.FS(), n.Rand(), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(res.Formatted) > 0 {
				t.Errorf("%+v: %v, want %s", c.o, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret!") {
				t.Errorf("a secret is in the error: %v", err)
			}
			if files := n.Disk().Files(); len(files) > 0 {
				t.Errorf("%+v left %v", c.o, files)
			}
		})
	}
}

// The keys are those with which the exchange in RFC 7677 comes out.
func TestScramKeys(t *testing.T) {
	const message = "n=user,r=rOprNGfwEbeRWgbNEkqO," +
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096," +
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	sign := func(key []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(message))
		return h.Sum(nil)
	}
	inWorld(t, func(n *sim.Node) {
		r, err := parseScram(n.Rand(), `SCRAM-SHA-256=[name=user,iterations=4096,salt="W22ZaJ0SNY7soEsUEjb6gQ==",password="pencil"]`)
		if err != nil {
			t.Fatal(err)
		}
		if got := base64.StdEncoding.EncodeToString(sign(r.ServerKey)); got != "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
			t.Errorf("the server's signature is %s", got)
		}
		clientKey, _ := base64.StdEncoding.DecodeString("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=") // the client's proof
		subtle.XORBytes(clientKey, clientKey, sign(r.StoredKey))
		if sha256.Sum256(clientKey) != [32]byte(r.StoredKey) {
			t.Error("the client's proof is not taken")
		}
		a, err1 := parseScram(n.Rand(), "SCRAM-SHA-512=[name=user,password=pencil]")
		b, err2 := parseScram(n.Rand(), "SCRAM-SHA-512=[name=user,password=pencil]")
		if err1 != nil || err2 != nil || len(a.Salt) != 26 || string(a.Salt) == string(b.Salt) || len(a.StoredKey) != 64 {
			t.Errorf("%+v %v, %+v %v", a, err1, b, err2)
		}
	})
}

// What a node says to the meta.properties in /data/a and /data/b before it does anything else.
func TestVerify(t *testing.T) {
	good := func(id string) string { return "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=" + id }
	for _, c := range []struct{ a, b, want string }{
		{good(someID), good(otherID), ""},
		{good(someID), "version=1\nnode.id=1\ncluster.id=c", ""},
		{good(someID), "version=0\nbroker.id=1\ncluster.id=c", ""},
		{good(someID), "version=2", "offline: /data/b"},
		{"version=2", good(someID), "Encountered I/O error in metadata log directory /data/a. Cannot continue."},
		{"", "", "No readable meta.properties files found."},
		{"version=2", "", "No readable meta.properties files found: read /data/a/meta.properties: Unknown meta.properties version number 2"},
		{good(someID), "", "No `meta.properties` found in /data/b"},
		{good(someID), good(someID), "Duplicate directory ID Optional[" + someID + "] found. It was the ID of /data/a, but also of /data/b"},
		{good(someID), "version=1\nnode.id=1\ncluster.id=d", "Invalid cluster.id in: /data/b/meta.properties. Expected c, but read d"},
		{good(someID), "version=1\nnode.id=7\ncluster.id=c", "Stored node id 7 doesn't match previous node id 1 in /data/b/meta.properties."},
		{good(someID), "version=0\ncluster.id=c", "Error: node ID not found in /data/b"},
		{good(someID), "version=0\nbroker.id=1", "Error: cluster ID not found in /data/b"},
	} {
		inWorld(t, func(n *sim.Node) {
			for dir, text := range map[string]string{"/data/a": c.a, "/data/b": c.b} {
				if err := n.FS().MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if text == "" {
					continue
				}
				if err := n.Disk().WriteFile(dir+"/meta.properties", []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			e, err := Verify(n, settings(t))
			if offline, ok := strings.CutPrefix(c.want, "offline: "); ok || c.want == "" {
				if err != nil {
					t.Fatalf("%q, %q: %v", c.a, c.b, err)
				}
				checkEnsemble(t, n, e, offline)
			} else if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%q, %q: %v, want %s", c.a, c.b, err, c.want)
			}
		})
	}
}

func checkEnsemble(t *testing.T, n *sim.Node, e *Ensemble, offline string) {
	t.Helper()
	for _, d := range e.Dirs {
		if (d.Err != nil) != (d.Path == offline) || d.Err == nil && d.ID.IsZero() {
			t.Errorf("%+v", d)
		}
	}
	again, err := Verify(n, settings(t))
	if err != nil || again.ClusterID != "c" || again.MetadataID() != e.MetadataID() || again.Dirs[1].ID != e.Dirs[1].ID {
		t.Errorf("%+v and then %+v, %v", e, again, err)
	}
}

// Wherever a crash comes, the directories are formatted or can be formatted again; never something in between.
func TestCrashWhileFormatting(t *testing.T) {
	crashes, whole := 0, false
	for at := 1; !whole; at++ {
		for seed := range uint64(4) {
			w := sim.NewWorld(seed, sim.Options{Disk: sim.DiskFaults{Torn: 0.3, Garbled: 0.3}})
			n := w.NewNode("n")
			o := Options{Config: settings(t), ClusterID: "cluster", Standalone: true}
			done := false
			n.CrashAfter(at)
			n.Do("format", func() {
				o.Now = n.Now()
				_, err := Format(n.FS(), n.Rand(), o)
				done = err == nil
			})
			w.RunFor(time.Second)
			whole = done
			if n.Alive() {
				n.Crash()
			} else {
				crashes++
			}
			n = n.Restart()
			n.CrashAfter(0)
			n.Do("again", func() {
				o.Now, o.IgnoreFormatted = n.Now(), true
				res, err := Format(n.FS(), n.Rand(), o)
				if err != nil || done && len(res.Formatted) > 0 {
					t.Errorf("crash at %d, seed %d: %s, %v", at, seed, formatted(res), err)
				}
				checkWhole(t, fmt.Sprintf("crash at %d, seed %d", at, seed), n, o.Config)
			})
			w.RunFor(time.Second)
			if w.Err() != nil {
				t.Fatal(w.Err())
			}
		}
	}
	if crashes < 20 {
		t.Errorf("only %d crashes", crashes)
	}
}

func checkWhole(t *testing.T, where string, n *sim.Node, cfg *config.Node) {
	t.Helper()
	e, err := Verify(n, cfg)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	if got := snapshot(t, n, cfg.MetadataLogDir, e); got != "kraft.version 1, voters (1 of a@localhost:9093)" {
		t.Errorf("%s: %s", where, got)
	}
	for _, f := range n.Disk().Files() {
		if strings.HasSuffix(f, ".part") || filepath.Base(f) == storage.MetaPropertiesFile+".tmp" {
			t.Errorf("%s: %s is left", where, f)
		}
	}
}
