package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/env"
)

// checkDir gives what is found in a directory, notes apart.
func checkDir(t testing.TB, fsys env.FS, dir string) (done Checked, problems, notes []string) {
	t.Helper()
	done, err := CheckDirectory(fsys, dir, CheckOptions{Found: func(f Finding) {
		rel, err := filepath.Rel(dir, f.Path)
		if err != nil {
			t.Error(err)
		}
		text := fmt.Sprintf("%s %d: %s", rel, f.Position, f.Problem)
		if f.Harmless {
			notes = append(notes, text)
		} else {
			problems = append(problems, text)
		}
	}})
	if err != nil {
		t.Error(err)
	}
	if int(done.Problems) != len(problems) {
		t.Errorf("%d problems are counted, %d were told", done.Problems, len(problems))
	}
	return done, problems, notes
}

// Nothing is wrong with what Apache Kafka wrote, and with what was made of it.
func TestCheckOfGoodFolders(t *testing.T) {
	for _, name := range []string{"clean", "kill9"} {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, name)
			for life := range 2 {
				done, problems, notes := checkDir(t, realFS(), dir)
				if len(problems) > 0 || done.Logs == 0 || done.Records == 0 || done.Bytes == 0 {
					t.Errorf("life %d: %+v\n%s", life, done, strings.Join(problems, "\n"))
				}
				t.Log(strings.Join(notes, "\n"))
				m := openManager(t, dir)
				if err := m.Shutdown(1); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// change overwrites bytes of a file at a position; -1 is its end.
func overwrite(at int64, b string) func(path string) error {
	return func(path string) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if at < 0 {
			if at, err = f.Seek(0, 2); err != nil {
				return err
			}
		}
		_, err = f.WriteAt([]byte(b), at)
		return errors.Join(err, f.Close())
	}
}

func content(text string) func(path string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
}

// Each sort of damage is told, with the file and the place.
func TestCheckFindsDamage(t *testing.T) {
	const first = "t-0/00000000000000000000"
	const last = "t-0/00000000000000000056"
	for _, c := range []struct {
		file   string
		damage func(path string) error
		want   string // of the first problem
	}{
		{first + ".log", overwrite(5*71+66, "x"), first + ".log 355: a batch whose CRC is wrong"},
		{first + ".log", overwrite(5*71+8, "\xff"), first + ".log 355: "},
		{last + ".log", func(path string) error { return os.Truncate(path, 200) }, last + ".log 142: the file ends inside a batch"},
		{last + ".log", os.Remove, "t-0/00000000000000000060.snapshot -1: is for offset 60, but the log ends at 56"},
		{first + ".index", overwrite(4*8+7, "\x70"), first + ".index 32: leads to position 368, where no batch begins"},
		{first + ".index", overwrite(4*8, "\x00\x00\x00\x03"), first + ".index 32: offset 3 at position 355 behind offset 4 at position 284"},
		{first + ".index", overwrite(-1, "\x00\x00\x00\x30\x00\x00\xff\x00"), first + ".index 216: leads to position 65280, where the segment has ended"},
		{first + ".index", overwrite(-1, "\x01"), first + ".index 216: ends inside an entry"},
		{first + ".index", func(path string) error { return os.Truncate(path, 4096) }, first + ".index 216: has 3880 bytes of preallocated space"},
		{first + ".timeindex", overwrite(7, "\x01"), first + ".timeindex 0: time 1700000000001 leads to offset 0, whose batch has time 1700000000000"},
		{first + ".timeindex", content(""), first + ".timeindex 0: ends at time -1, the segment has a batch of 1700000000000"},
		{last + ".timeindex", content(""), last + ".timeindex 0: ends at time -1, the segment has a batch of 1700000000000"},
		{first + ".txnindex", content(strings.Repeat("\x00", 34)), first + ".txnindex 0: names offset 0, where producer 0 has aborted nothing"},
		{first + ".txnindex", content("\x00"), first + ".txnindex 0: an entry that is cut off"},
		{"t-0/00000000000000000060.snapshot", overwrite(6, "\x01"), "t-0/00000000000000000060.snapshot -1: the producer snapshot is damaged"},
		{"t-0/leader-epoch-checkpoint", content("0\n1\n5 0\n"), "t-0/leader-epoch-checkpoint -1: says that offset 0 is of leader epoch 5, its batch says 0"},
		{"t-0/leader-epoch-checkpoint", content("0\n2\n0 0\n"), "t-0/leader-epoch-checkpoint -1: read "},
		{"t-0/partition.metadata", content("version: 7\n"), "t-0/partition.metadata -1: "},
		{RecoveryPointCheckpoint, content("0\n1\nt 0 61\n"), RecoveryPointCheckpoint + " -1: gives t-0 the offset 61, but its log ends at 60"},
		{HighWatermarkCheckpoint, content("0\n1\nt 0 -5\n"), HighWatermarkCheckpoint + " -1: gives t-0 the offset -5"},
		{LogStartCheckpoint, content("what\n"), LogStartCheckpoint + " -1: read "},
		{MetaPropertiesFile, content("version=9\n"), MetaPropertiesFile + " -1: read "},
		{MetaPropertiesFile, os.Remove, MetaPropertiesFile + " -1: is missing"},
	} {
		t.Run(c.want, func(t *testing.T) {
			dir := t.TempDir()
			withBatches(t, dir, 60)
			if err := content("version=1\ncluster.id=c\nnode.id=1\n")(filepath.Join(dir, MetaPropertiesFile)); err != nil {
				t.Fatal(err)
			}
			if _, problems, _ := checkDir(t, realFS(), dir); len(problems) > 0 {
				t.Fatalf("before the damage: %v", problems)
			}
			if err := c.damage(filepath.Join(dir, c.file)); err != nil {
				t.Fatal(err)
			}
			_, problems, notes := checkDir(t, realFS(), dir)
			if len(problems) == 0 || !strings.HasPrefix(problems[0], c.want) {
				t.Errorf("problems:\n%s\nnotes:\n%s", strings.Join(problems, "\n"), strings.Join(notes, "\n"))
			}
		})
	}
}

// What a crash leaves is not called wrong.
func TestCheckAfterACrash(t *testing.T) {
	dir := t.TempDir()
	withBatches(t, dir, 60)
	for path, damage := range map[string]func(string) error{
		MetaPropertiesFile:                     content("version=1\ncluster.id=c\nnode.id=1\n"),
		CleanShutdownFile:                      os.Remove,
		RecoveryPointCheckpoint:                content("0\n1\nt 0 28\n"),
		HighWatermarkCheckpoint:                content("0\n1\nt 0 70\n"),
		"t-0/00000000000000000056.log":         overwrite(-1, "garbage"),
		"t-0/00000000000000000028.log":         overwrite(100, "garbage"),
		"t-0/00000000000000000056.index":       content("garbage"),
		"t-0/00000000000000000000.index":       os.Remove,
		"t-0/00000000000000000003.log.deleted": content("x"),
		"recovery-point-offset-checkpoint.tmp": content("x"),
		"t-0/00000000000000000004.timeindex":   content("x"),
		"t-0/leader-epoch-checkpoint":          content("0\n0\n"),
		"lost+found-or-so":                     content("x"),
	} {
		if err := damage(filepath.Join(dir, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	done, problems, notes := checkDir(t, realFS(), dir)
	if len(problems) > 0 || len(notes) < 9 {
		t.Errorf("%+v\nproblems:\n%s\nnotes:\n%s", done, strings.Join(problems, "\n"), strings.Join(notes, "\n"))
	}
}
