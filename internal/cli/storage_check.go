package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/storage"
)

func newStorageCheck(s *streams) *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR...",
		Short: "Read every file of log directories and say what is wrong with them",
		Long: `Read every file of log directories, of Ottla's or of Apache Kafka's, while no node uses them: batches with their CRCs
and records, indexes, leader epochs, producer snapshots, checkpoints, the quorum's state and snapshots. Nothing is changed. Each line
names a file, the position in it and what is wrong there; "note:" marks what a crash may leave and the next start puts in order. Ends
with 1 if anything else was found.`,
		Example: "  ottla storage check /var/lib/kafka/data",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{"too few arguments"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var sum storage.Checked
			for _, dir := range args {
				done, err := checkDirectory(s, real.New(real.Options{}).FS(), dir)
				if err != nil {
					return err
				}
				sum.Logs, sum.Files, sum.Batches, sum.Records = sum.Logs+done.Logs, sum.Files+done.Files, sum.Batches+done.Batches, sum.Records+done.Records
				sum.Bytes, sum.Problems = sum.Bytes+done.Bytes, sum.Problems+done.Problems
			}
			fmt.Fprintf(s.out, "Checked %d logs in %d files: %d batches with %d records, %d bytes.\n", sum.Logs, sum.Files, sum.Batches, sum.Records, sum.Bytes)
			switch sum.Problems {
			case 0:
				fmt.Fprintln(s.out, "Nothing is wrong.")
				return nil
			case 1:
				return fmt.Errorf("1 problem was found")
			}
			return fmt.Errorf("%d problems were found", sum.Problems)
		},
	}
}

// checkDirectory checks one directory, if nobody uses it.
func checkDirectory(s *streams, fsys env.FS, dir string) (storage.Checked, error) {
	if _, err := fsys.Stat(filepath.Join(dir, storage.LockFile)); err == nil { // a check makes no file
		lock, err := storage.LockDirectory(fsys, dir)
		if err != nil {
			return storage.Checked{}, err
		}
		defer lock.Close()
	}
	return storage.CheckDirectory(fsys, dir, storage.CheckOptions{
		Found: func(f storage.Finding) {
			note, at := "", ""
			if f.Harmless {
				note = "note: "
			}
			if f.Position >= 0 {
				at = fmt.Sprintf(" at %d", f.Position)
			}
			fmt.Fprintf(s.out, "%s%s%s: %s\n", note, f.Path, at, f.Problem)
		},
		Other: func(path string) (bool, error) { return checkQuorumFile(fsys, path) },
	})
}

// checkQuorumFile checks a file that only the metadata log has.
func checkQuorumFile(fsys env.FS, path string) (known bool, err error) {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	if name == raft.QuorumStateFile {
		_, err := raft.ReadElection(fsys, dir)
		return true, err
	}
	id, ok := raft.ParseSnapshotName(name)
	if !ok {
		return strings.HasSuffix(name, ".checkpoint.part"), nil
	}
	r, err := raft.OpenSnapshot(fsys, dir, id)
	if err != nil {
		return true, err
	}
	defer r.Close()
	for {
		if _, more, err := r.Next(); err != nil || !more {
			return true, err
		}
	}
}
