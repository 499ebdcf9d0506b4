package cli

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newMetadataShell(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metadata-shell --snapshot PATH [COMMAND [ARGUMENT...]]",
		Short: "Browse the cluster's metadata as if it were files",
		Long: `Read a metadata log or a snapshot of it and browse what the cluster looks like at its end, as kafka-metadata-shell.sh
does: topics, brokers, settings and so on are a tree of folders and files. PATH is the folder __cluster_metadata-0, a snapshot
(.checkpoint) or a segment (.log) in it. Without a command there is a prompt; help lists the commands.`,
		Example: `  ottla metadata-shell --snapshot ottla-data/__cluster_metadata-0 ls /image
  ottla metadata-shell --snapshot ottla-data/__cluster_metadata-0 cat /image/topics/byName/orders/0
  ottla metadata-shell --snapshot ottla-data/__cluster_metadata-0 tree /image/features`,
		Annotations: map[string]string{dialectKey: string(argparse)},
		RunE:        func(cmd *cobra.Command, args []string) error { return metadataShell(s, cmd, args) },
	}
	cmd.Flags().StringP("snapshot", "s", "", "a `path`: the folder of the metadata log, a snapshot, or a segment")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func metadataShell(s *streams, cmd *cobra.Command, args []string) error {
	from, _ := cmd.Flags().GetString("snapshot")
	if from == "" {
		return usageError{"argument --snapshot/-s is required"}
	}
	img, err := loadImage(from)
	if err != nil {
		return err
	}
	sh := &shell{root: imageTree(img), dir: "/", out: s.out, err: s.err}
	if len(args) > 0 {
		if !sh.run(args) {
			return exitError{1}
		}
		return nil
	}
	fmt.Fprintln(s.out, "[ Kafka Metadata Shell ]")
	in := bufio.NewScanner(s.in)
	for fmt.Fprint(s.out, ">> "); in.Scan(); fmt.Fprint(s.out, ">> ") {
		words := strings.Fields(in.Text())
		if len(words) == 0 {
			continue
		}
		if words[0] == "exit" || words[0] == "quit" {
			return nil
		}
		sh.run(words)
	}
	fmt.Fprintln(s.out)
	return in.Err()
}

// entry is a folder, which has children, or a file, which has a text.
type entry struct {
	children map[string]*entry
	text     string
}

func folder() *entry { return &entry{children: map[string]*entry{}} }

func file(text string) *entry { return &entry{text: text} }

// add puts an entry into a folder, and returns it.
func (e *entry) add(name string, child *entry) *entry {
	e.children[name] = child
	return child
}

func (e *entry) names() []string { return slices.Sorted(maps.Keys(e.children)) }

// shell is one session.
type shell struct {
	root     *entry
	dir      string
	out, err io.Writer
}

const shellHelp = `cat [PATH...]   print files
cd [PATH]       go to a folder
exit, quit      leave
find [PATH...]  list everything below
help            this list
ls [PATH...]    list folders
man COMMAND     what a command does
pwd             where you are
tree [PATH...]  everything below, with its text`

// run runs a command, and reports whether it could.
func (sh *shell) run(words []string) bool {
	name, args := words[0], words[1:]
	switch name {
	case "help", "man":
		fmt.Fprintln(sh.out, shellHelp)
	case "pwd":
		fmt.Fprintln(sh.out, sh.dir)
	case "cd":
		return sh.cd(args)
	case "ls":
		return sh.each(name, args, sh.list)
	case "cat":
		return sh.each(name, args, sh.cat)
	case "tree":
		return sh.each(name, args, func(_ string, e *entry) bool { sh.tree(e, 0); return true })
	case "find":
		return sh.each(name, args, func(p string, e *entry) bool { sh.find(p, e); return true })
	default:
		fmt.Fprintf(sh.err, "No such command: %s; help lists the commands.\n", name)
		return false
	}
	return true
}

// each runs fn for each path, or where we are.
func (sh *shell) each(command string, paths []string, fn func(path string, e *entry) bool) bool {
	if len(paths) == 0 {
		paths = []string{sh.dir}
	}
	ok := true
	for _, p := range paths {
		p = sh.absolute(p)
		e := sh.root.find(p)
		if e == nil {
			fmt.Fprintf(sh.err, "%s: %s: no such file or directory.\n", command, p)
			ok = false
			continue
		}
		ok = fn(p, e) && ok
	}
	return ok
}

func (sh *shell) absolute(p string) string {
	if !path.IsAbs(p) {
		p = path.Join(sh.dir, p)
	}
	return path.Clean(p)
}

func (e *entry) find(p string) *entry {
	for name := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		if name == "" {
			continue
		}
		if e = e.children[name]; e == nil {
			return nil
		}
	}
	return e
}

func (sh *shell) cd(args []string) bool {
	to := "/"
	if len(args) > 0 {
		to = sh.absolute(args[0])
	}
	if e := sh.root.find(to); e == nil || e.children == nil {
		fmt.Fprintf(sh.err, "cd: %s: no such directory.\n", to)
		return false
	}
	sh.dir = to
	return true
}

func (sh *shell) list(p string, e *entry) bool {
	if e.children == nil {
		fmt.Fprintln(sh.out, path.Base(p))
		return true
	}
	for _, name := range e.names() {
		fmt.Fprintln(sh.out, name)
	}
	return true
}

func (sh *shell) cat(p string, e *entry) bool {
	if e.children != nil {
		fmt.Fprintf(sh.err, "cat: %s: Is a directory.\n", p)
		return false
	}
	fmt.Fprintln(sh.out, e.text)
	return true
}

func (sh *shell) tree(e *entry, depth int) {
	indent := strings.Repeat("  ", depth)
	for _, name := range e.names() {
		child := e.children[name]
		if child.children == nil {
			fmt.Fprintf(sh.out, "%s%s: %s\n", indent, name, child.text)
			continue
		}
		fmt.Fprintf(sh.out, "%s%s:\n", indent, name)
		sh.tree(child, depth+1)
	}
}

func (sh *shell) find(p string, e *entry) {
	fmt.Fprintln(sh.out, p)
	for _, name := range e.names() {
		sh.find(path.Join(p, name), e.children[name])
	}
}
