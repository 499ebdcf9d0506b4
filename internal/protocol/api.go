package protocol

import (
	"math"

	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// Message is what requests, responses and everything else generated here can do.
type Message interface {
	SetDefaults()
	Encode(b []byte, version int16) ([]byte, error)
	Decode(d *wire.Decoder, version int16) error
}

// Request is a message with an API key. (The method is not called Key: FindCoordinatorRequest has such a field.)
type Request interface {
	Message
	APIKey() int16
}

// Response is a message with an API key.
type Response interface {
	Message
	APIKey() int16
}

// Throttled is a response that can tell its client to wait.
type Throttled interface {
	Response
	SetThrottle(ms int32)
}

// Listeners is a set of listener kinds.
type Listeners uint8

// Where an API is served.
const (
	OnBroker Listeners = 1 << iota
	OnController
)

// NeverFlexible stands in API.FlexibleFrom for no version.
const NeverFlexible int16 = math.MaxInt16

// API is what the schemas say about an API.
type API struct {
	Key            int16
	Name           string // Produce
	Min, Max       int16  // versions
	FlexibleFrom   int16  // first version with compact lengths and tagged fields
	On             Listeners
	LatestUnstable bool // Max is served only with unstable.api.versions.enable
	Forward        bool // a broker forwards the request to the active controller (KIP-590)
	ClusterAction  bool // asks for the operation ClusterAction on the cluster
}

// MaxStable is the highest released version.
func (a *API) MaxStable() int16 {
	if a.LatestUnstable {
		return a.Max - 1
	}
	return a.Max
}

// Lookup returns the API of a key; nil if there is none.
func Lookup(key int16) *API {
	// Keys 4 to 7 were removed; the rest is dense.
	i := int(key)
	if i > 3 {
		i -= 4
	}
	if i < 0 || i >= len(APIs) || APIs[i].Key != key {
		return nil
	}
	return &APIs[i]
}

// RequestHeaderVersion is the version of the header before a request. An unknown API has none: -1.
func RequestHeaderVersion(key, version int16) int16 {
	switch a := Lookup(key); {
	case a == nil:
		return -1
	case version >= a.FlexibleFrom:
		return 2
	}
	return 1
}

// ResponseHeaderVersion is the version of the header before a response. That of ApiVersions is always 0: the
// client does not know yet what the server speaks. An unknown API has none: -1.
func ResponseHeaderVersion(key, version int16) int16 {
	switch a := Lookup(key); {
	case a == nil:
		return -1
	case key != KeyApiVersions && version >= a.FlexibleFrom:
		return 1
	}
	return 0
}
