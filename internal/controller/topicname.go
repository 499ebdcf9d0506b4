package controller

import "strings"

const (
	clusterMetadataTopic = "__cluster_metadata"
	maxTopicName         = 249 // with -2147483647 it is a file name of 260 characters
)

// topicNameProblem says what is wrong with a topic's name, in Kafka's words; empty if nothing is.
func topicNameProblem(name string) string {
	const prefix = "Topic name is invalid: "
	switch {
	case name == "":
		return prefix + "the empty string is not allowed"
	case name == ".":
		return prefix + "'.' is not allowed"
	case name == "..":
		return prefix + "'..' is not allowed"
	case len(name) > maxTopicName:
		return prefix + "the length of '" + name + "' is longer than the max allowed length 249"
	}
	for _, c := range []byte(name) {
		legal := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !legal {
			return prefix + "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
		}
	}
	return ""
}

// Names that differ only in . and _ would have metrics of one name.
func hasCollisionChars(name string) bool     { return strings.ContainsAny(name, "._") }
func unifyCollisionChars(name string) string { return strings.ReplaceAll(name, ".", "_") }
