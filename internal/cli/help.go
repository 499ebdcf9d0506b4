package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the line length of help texts, in columns.
const helpWidth = 100

// printUsage writes a command's usage: how to call it, its subcommands, examples, flags.
func printUsage(w io.Writer, cmd *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n")
	if cmd.Runnable() && (!cmd.HasAvailableSubCommands() || cmd.HasParent() && strings.Contains(cmd.Use, " ")) {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		writeCommands(&b, cmd)
	}
	if cmd.HasAvailableLocalFlags() && cmd.HasParent() {
		b.WriteString("\nFlags:\n")
		writeFlags(&b, cmd.LocalFlags())
	}
	if cmd.HasAvailableInheritedFlags() {
		b.WriteString("\nFlags of all subcommands:\n")
		writeFlags(&b, cmd.InheritedFlags())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help says more about a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	width := 0
	for _, c := range cmd.Commands() {
		width = max(width, len(c.Name()))
	}
	list := func(group string) {
		for _, c := range cmd.Commands() {
			if c.GroupID == group && c.IsAvailableCommand() {
				fmt.Fprintf(b, "  %-*s  %s\n", width, c.Name(), c.Short)
			}
		}
	}
	if len(cmd.Groups()) == 0 {
		b.WriteString("\nCommands:\n")
		list("")
	}
	for _, g := range cmd.Groups() {
		fmt.Fprintf(b, "\n%s\n", g.Title)
		list(g.ID)
	}
}

// newHelp is the command that shows the help of another one.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Show what a command does and which flags it has",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if cmd, _, err := root.Find(args); err == nil {
				for _, c := range cmd.Commands() {
					if !c.IsAvailableCommand() {
						continue
					}
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil && cmd.HasSubCommands() {
				err = cmd.ValidateArgs(rest)
			}
			if err != nil {
				return asUsage(err)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// valueNameKey marks a flag with what its value is called.
const valueNameKey = "value-name"

// nameValues takes the name of the value out of the text of each flag, where it stands between backquotes: completions
// show the text as it is.
func nameValues(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		name, text := pflag.UnquoteUsage(f)
		f.Usage = text
		_ = flags.SetAnnotation(f.Name, valueNameKey, []string{name})
	})
}

func valueName(f *pflag.Flag) string {
	if names := f.Annotations[valueNameKey]; len(names) == 1 {
		return names[0]
	}
	return f.Value.Type()
}

// oneOf completes the value of a flag.
func oneOf(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// writeFlags writes one flag per line, its text beside it or, where the flag is long, below.
func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	const indent = 34
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		text := f.Usage
		head := "  --" + f.Name
		if f.Shorthand != "" && f.Name != "help" {
			head = "  -" + f.Shorthand + ", --" + f.Name
		}
		switch {
		case f.Value.Type() == "bool":
		case len(f.Annotations[optionalValue]) > 0:
			head += " [" + valueName(f) + "]"
		default:
			head += " " + valueName(f)
		}
		lines := wrap(text, helpWidth-indent)
		if len(head) > indent-2 {
			fmt.Fprintf(b, "%s\n", head)
			head = ""
		}
		for _, line := range lines {
			fmt.Fprintf(b, "%-*s%s\n", indent, head, line)
			head = ""
		}
	})
}

// wrap breaks text into lines of at most width columns, and keeps the breaks it has.
func wrap(text string, width int) []string {
	var lines []string
	for _, paragraph := range strings.Split(text, "\n") {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			if line != "" && len(line)+1+len(word) > width {
				lines = append(lines, line)
				line = ""
			}
			if line != "" {
				line += " "
			} else if strings.HasPrefix(paragraph, "  ") {
				line = "  "
			}
			line += word
		}
		lines = append(lines, line)
	}
	return lines
}
