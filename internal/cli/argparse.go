package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Tools whose Kafka counterparts read their arguments with argparse4j complain in its words.

// argparseName is a flag as argparse4j names it: --config/-c.
func argparseName(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "--" + f.Name
	}
	return "--" + f.Name + "/-" + f.Shorthand
}

// argparseNoArgs refuses arguments that are not flags.
func argparseNoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unrecognized arguments: '%s'", strings.Join(args, " "))
	}
	return nil
}

// argparseRequired is the error for the first flag of names that was not given.
func argparseRequired(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if !given(cmd, name) {
			return usagef("argument %s is required", argparseName(cmd.Flags().Lookup(name)))
		}
	}
	return nil
}

// argparseOneOf is the error for the second flag of names that was given: they exclude one another.
func argparseOneOf(cmd *cobra.Command, names ...string) error {
	flags := cmd.Flags()
	sorted := flags.SortFlags
	flags.SortFlags = false // in the order in which they were given
	defer func() { flags.SortFlags = sorted }()
	var found []*pflag.Flag
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(names, f.Name) {
			found = append(found, f)
		}
	})
	if len(found) < 2 {
		return nil
	}
	return usagef("argument %s: not allowed with argument %s", argparseName(found[1]), argparseName(found[0]))
}

// expandArgparse writes out flags that were shortened: --con is --config where no other flag begins so.
func expandArgparse(flags *pflag.FlagSet, args []string) ([]string, error) {
	out := slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(arg, "--") || name == "" || name == "help" || flags.Lookup(name) != nil {
			continue
		}
		var long []string
		flags.VisitAll(func(f *pflag.Flag) {
			if strings.HasPrefix(f.Name, name) {
				long = append(long, "--"+f.Name)
			}
		})
		switch {
		case len(long) > 1:
			return nil, usagef("ambiguous option: --%s could match %s", name, strings.Join(long, ", "))
		case len(long) == 1 && hasValue:
			out[i] = long[0] + "=" + value
		case len(long) == 1:
			out[i] = long[0]
		}
	}
	return out, nil
}
