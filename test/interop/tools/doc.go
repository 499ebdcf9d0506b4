// Package tools runs the command line tools of Apache Kafka, and kcat, against Ottla.
package tools
