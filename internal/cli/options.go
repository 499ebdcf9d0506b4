package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// optionalValue marks a flag whose value may be left out: --compression-codec, --compression-codec zstd.
const optionalValue = "optional-value"

// normaliseJopt turns the arguments of a tool whose Kafka counterpart reads them with jopt-simple into what pflag
// reads the same way: -topic becomes --topic, an optional value is tied to its flag. A flag of one value that
// comes twice is an error, as there. Nothing behind -- is touched.
func normaliseJopt(flags *pflag.FlagSet, args []string) ([]string, error) {
	out := make([]string, 0, len(args))
	seen := map[string]bool{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...), nil
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		flag := flags.Lookup(name)
		if !strings.HasPrefix(arg, "-") || flag == nil || name == "" {
			if strings.HasPrefix(arg, "-") && len(name) > 1 && flag == nil && name != "help" {
				return nil, usageError{name + " is not a recognized option"}
			}
			out = append(out, arg)
			continue
		}
		if flag.Value.Type() != "bool" && flag.Value.Type() != "stringArray" {
			if seen[name] {
				return nil, usagef("Found multiple arguments for option %s, but you asked for only one", name)
			}
			seen[name] = true
		}
		arg = "--" + name
		switch {
		case hasValue:
			arg += "=" + value
		case flag.Value.Type() == "bool":
		case len(flag.Annotations[optionalValue]) > 0:
			if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++
				arg += "=" + args[i]
			}
		default:
			if i+1 == len(args) {
				return nil, usagef("Option %s requires an argument", name)
			}
			i++
			arg += "=" + args[i]
		}
		out = append(out, arg)
	}
	return out, nil
}

// flagError is pflag's error in the words of the dialect.
func flagError(d dialect, err error) error {
	var unknown *pflag.NotExistError
	var noValue *pflag.ValueRequiredError
	var badValue *pflag.InvalidValueError
	switch {
	case d == plainCobra:
		return usageError{err.Error()}
	case errors.As(err, &unknown) && d == argparse:
		name := unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			return usagef("unrecognized arguments: '-%s'", unknown.GetSpecifiedShortnames())
		}
		return usagef("unrecognized arguments: '--%s'", name)
	case errors.As(err, &unknown):
		return usageError{unknown.GetSpecifiedName() + " is not a recognized option"}
	case errors.As(err, &noValue) && d == argparse:
		return usagef("argument %s: expected one argument", argparseName(noValue.GetFlag()))
	case errors.As(err, &noValue):
		return usagef("Option %s requires an argument", noValue.GetFlag().Name)
	case errors.As(err, &badValue) && d == argparse:
		return usagef("argument %s: could not convert '%s'", argparseName(badValue.GetFlag()), badValue.GetValue())
	case errors.As(err, &badValue):
		return usagef("Cannot parse argument '%s' of option %s", badValue.GetValue(), badValue.GetFlag().Name)
	}
	return usageError{err.Error()}
}

// given says whether a flag was on the command line.
func given(cmd *cobra.Command, name string) bool { return cmd.Flags().Changed(name) }

// requireFlags is the error for the first flag of names that was not given, in Kafka's words.
func requireFlags(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if !given(cmd, name) {
			return usagef("Missing required argument \"[%s]\"", name)
		}
	}
	return nil
}

// refuseTogether is the error for the first flag of others that was given beside used, in Kafka's words.
func refuseTogether(cmd *cobra.Command, used string, others ...string) error {
	if !given(cmd, used) {
		return nil
	}
	for _, other := range others {
		if given(cmd, other) {
			return usagef("Option \"[%s]\" can't be used with option \"[%s]\"", used, other)
		}
	}
	return nil
}

// parseInt32 reads the value of a flag that Kafka's tool converts late.
func parseInt32(name, value string) (int32, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("Cannot parse argument '%s' of option %s", value, name) //nolint:staticcheck // Kafka's words
	}
	return int32(n), nil
}

// keyValues reads key=value arguments; a missing value is empty, the last of a key counts.
func keyValues(args []string) map[string]string {
	m := make(map[string]string, len(args))
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		m[key] = value
	}
	return m
}

// versionFlag adds --version, which every tool of Kafka with jopt-simple has.
func versionFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("version", false, "print the version of Kafka that this tool stands in for, and exit")
}

// printedVersion handles --version.
func printedVersion(s *streams, cmd *cobra.Command) bool {
	if v, _ := cmd.Flags().GetBool("version"); v {
		fmt.Fprintln(s.out, kafkaVersion)
		return true
	}
	return false
}
