// Package cluster runs clusters of real processes under load, kills, freezes and restarts their members, and reads back what was acknowledged: brokers
// of Ottla alone, and mixed with brokers and controllers of Apache Kafka.
package cluster
