package record

import "fmt"

// Compression is the codec of a batch's records: the lowest three attribute bits.
type Compression int8

const (
	None   Compression = 0
	Gzip   Compression = 1
	Snappy Compression = 2
	LZ4    Compression = 3
	Zstd   Compression = 4
)

// DefaultLevel asks for a codec's default level, whatever its number.
const DefaultLevel = -1 << 31

var codecs = [...]struct {
	name           string
	min, max, dflt int // levels; all 0 when the codec has none
}{
	None:   {name: "none"},
	Gzip:   {name: "gzip", min: 1, max: 9, dflt: -1},
	Snappy: {name: "snappy"},
	LZ4:    {name: "lz4", min: 1, max: 17, dflt: 9},
	Zstd:   {name: "zstd", min: -131072, max: 22, dflt: 3},
}

// ParseCompression reads Kafka's name of a codec: none, gzip, snappy, lz4, zstd.
func ParseCompression(name string) (Compression, error) {
	for c := range codecs {
		if codecs[c].name == name {
			return Compression(c), nil
		}
	}
	return None, fmt.Errorf("unknown compression %q", name)
}

// Valid says whether c is one of the five known codecs.
func (c Compression) Valid() bool { return c >= None && c <= Zstd }

func (c Compression) String() string {
	if !c.Valid() {
		return fmt.Sprintf("codec-%d", int8(c))
	}
	return codecs[c].name
}

// Levels returns the bounds and the default of compression.<codec>.level; all 0 for a codec
// without levels. Gzip's default, -1, lies outside its bounds and is allowed all the same (KIP-780).
func (c Compression) Levels() (lowest, highest, dflt int) {
	if !c.Valid() {
		return 0, 0, 0
	}
	l := codecs[c]
	return l.min, l.max, l.dflt
}

// level resolves DefaultLevel and checks the bounds.
func (c Compression) level(level int) (int, error) {
	lowest, highest, dflt := c.Levels()
	if level == DefaultLevel || level == dflt || lowest == highest {
		return dflt, nil
	}
	if level < lowest || level > highest {
		return 0, fmt.Errorf("compression level %d of %s is not within %d and %d", level, c, lowest, highest)
	}
	return level, nil
}
