package wire

import "unicode/utf8"

// Text is the string that b holds for Kafka: what is not UTF-8 becomes U+FFFD, as Java's decoder does it.
func Text(b []byte) string { return text(b) }

// text is the string that b holds. Java's decoder puts U+FFFD in place of what is not UTF-8, so that to Kafka two
// strings may be one; to be the same group, topic or client here as there, ours does it as Java does.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out []byte
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = malformed(b)
		}
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return string(out)
}

// malformed is how many bytes of b Java replaces by one U+FFFD: the start of a character as far as it could have
// become one, and a surrogate as a whole.
func malformed(b []byte) int {
	next := func(i int) bool { return i < len(b) && b[i]&0xc0 == 0x80 }
	switch c := b[0]; {
	case c >= 0xe0 && c <= 0xef:
		switch {
		case !next(1) || c == 0xe0 && b[1] < 0xa0:
			return 1
		case !next(2):
			return 2
		}
		return 3 // a surrogate
	case c >= 0xf0 && c <= 0xf4:
		switch {
		case !next(1) || c == 0xf0 && b[1] < 0x90 || c == 0xf4 && b[1] > 0x8f:
			return 1
		case !next(2):
			return 2
		}
		return 3
	}
	return 1
}
