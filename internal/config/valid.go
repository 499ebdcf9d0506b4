package config

import (
	"fmt"
	"slices"
	"strings"
)

// checkNumber applies a rule such as "[1,...]", "[0,...,1]" or "[1,...,9] or -1". compare tells on which side of
// a limit the number lies. It returns Kafka's complaint, or nothing.
func checkNumber(rule string, n float64, compare func(limit string) int) string {
	rest, also := rule, ""
	if i := strings.Index(rule, " or "); i >= 0 {
		rest, also = rule[:i], rule[i+4:]
	}
	if !strings.HasPrefix(rest, "[") || !strings.Contains(rest, ",...") {
		return ""
	}
	if also != "" && fmt.Sprint(n) == also {
		return ""
	}
	lower, upper, _ := strings.Cut(strings.Trim(rest, "[]"), ",...")
	upper = strings.TrimPrefix(upper, ",")
	if also != "" {
		if compare(lower) < 0 || compare(upper) > 0 {
			return fmt.Sprintf("Value must be between %s and %s or equal to %s", lower, upper, also)
		}
		return ""
	}
	if compare(lower) < 0 {
		return "Value must be at least " + lower
	}
	if upper != "" && compare(upper) > 0 {
		return "Value must be no more than " + upper
	}
	return ""
}

func checkString(rule, v string) string {
	switch {
	case rule == "non-empty string":
		if v == "" {
			return "String must be non-empty"
		}
		return ""
	case strings.HasPrefix(rule, "(case insensitive) ["):
		options := splitList(strings.Trim(strings.TrimPrefix(rule, "(case insensitive) "), "[]"))
		for _, o := range options {
			if strings.EqualFold(o, v) {
				return ""
			}
		}
		return "String must be one of (case insensitive): " + strings.Join(options, ", ")
	case strings.HasPrefix(rule, "[") && !strings.Contains(rule, "...") && !strings.Contains(rule, "by_duration"):
		options := splitList(strings.Trim(rule, "[]"))
		if !slices.Contains(options, v) {
			return "String must be one of: " + strings.Join(options, ", ")
		}
	}
	return ""
}

// checkList returns Kafka's complaint about the elements of a list, or nothing. Repeated elements are no error: Parse
// keeps the first of each.
func checkList(d *Def, items []string) string {
	switch rule := d.Valid; {
	case strings.HasPrefix(rule, "[partitionId]:[brokerId]"):
		return checkThrottledReplicas(d.Name, items)
	case strings.HasPrefix(rule, "[") && !strings.Contains(rule, "..."):
		options := splitList(strings.Trim(rule, "[]"))
		for _, item := range items {
			if !slices.Contains(options, item) {
				return "String must be one of: " + strings.Join(options, ", ")
			}
		}
	}
	return ""
}

// mustNotBeEmpty names what a list that must have an element may hold, or nothing if it may be empty.
func mustNotBeEmpty(d *Def) string {
	switch d.Name {
	case "process.roles":
		return d.Valid
	case "controller.listener.names", "log.dirs", "log.dir":
		return "any non-empty value"
	}
	return ""
}

// checkThrottledReplicas takes "*" alone, nothing, or pairs partition:broker.
func checkThrottledReplicas(name string, items []string) string {
	if len(items) == 0 || slices.Equal(items, []string{"*"}) {
		return ""
	}
	for _, item := range items {
		p, b, ok := strings.Cut(item, ":")
		if !ok || !isDigits(p) || !isDigits(b) {
			return name + " must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
		}
	}
	return ""
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
