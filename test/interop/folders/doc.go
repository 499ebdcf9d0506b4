// Package folders hands data folders over: Apache Kafka's tools read what Ottla wrote, either server starts on what the other left
// behind, in order or by kill -9, and a killed Ottla has every record that it acknowledged.
package folders
