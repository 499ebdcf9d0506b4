package uuid

import (
	"bytes"
	"encoding/base64"
	"fmt"
)

// UUID is an id of 16 bytes, most significant first. The zero value is Zero.
type UUID [16]byte

var (
	// Zero stands for "none"; as a log directory: migrating (DirMigrating).
	Zero UUID
	// One is reserved; as a log directory: unassigned.
	One = UUID{15: 1}
	// Metadata is the id of the topic __cluster_metadata.
	Metadata = One
	// DirMigrating, DirUnassigned and DirLost stand for a log directory that is not known (KIP-858).
	DirMigrating  = Zero
	DirUnassigned = One
	DirLost       = UUID{15: 2}
)

// Reserved reports whether u is one of the first 100 ids, which are never given out.
func (u UUID) Reserved() bool {
	for _, b := range u[:15] {
		if b != 0 {
			return false
		}
	}
	return u[15] < 100
}

// Draw makes a version 4 id of random bytes, as Kafka does. It draws again when the id is reserved, or when its text would start with a
// dash and be taken for an option by tools. random fills a slice and never fails.
func Draw(random func([]byte)) UUID {
	for {
		var b [16]byte
		random(b[:])
		if u, ok := fromRandom(b); ok {
			return u
		}
	}
}

func fromRandom(b [16]byte) (u UUID, ok bool) {
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	u = UUID(b)
	return u, !u.Reserved() && u.String()[0] != '-'
}

// String is Kafka's text of an id: base64url without padding, 22 characters.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// IsZero reports whether u is Zero.
func (u UUID) IsZero() bool { return u == Zero }

// Compare orders ids by their bytes.
func (u UUID) Compare(o UUID) int { return bytes.Compare(u[:], o[:]) }

// Parse reads the text of an id. Like Kafka it takes padding, and refuses what is not 16 bytes long.
func Parse(s string) (UUID, error) {
	if len(s) > 24 {
		return Zero, fmt.Errorf("parse uuid: %d characters instead of 22", len(s))
	}
	t := s
	for len(t) > 22 && t[len(t)-1] == '=' {
		t = t[:len(t)-1]
	}
	b, err := base64.RawURLEncoding.DecodeString(t)
	if err != nil {
		return Zero, fmt.Errorf("parse uuid %q: %w", s, err)
	}
	if len(b) != 16 {
		return Zero, fmt.Errorf("parse uuid %q: %d bytes instead of 16", s, len(b))
	}
	return UUID(b), nil
}

// MarshalText writes the base64url text.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads the base64url text.
func (u *UUID) UnmarshalText(b []byte) error {
	v, err := Parse(string(b))
	if err != nil {
		return err
	}
	*u = v
	return nil
}
