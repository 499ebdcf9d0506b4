package wire

// Tag is a tagged field that the schema does not know.
type Tag struct {
	Number int
	Value  []byte
}

// TagCount reads how many tagged fields follow.
func (d *Decoder) TagCount() int {
	n := d.Uvarint()
	switch {
	case n > MaxTags:
		d.Fail("more than 10,000 tagged fields")
		return 0
	case n*2 > len(d.b)-d.i:
		d.Fail("tagged fields longer than their input")
		return 0
	}
	return n
}

// TagHead reads the number and the size of a tagged field; -1 after an error.
func (d *Decoder) TagHead() (number, size int) {
	number, size = d.Uvarint(), d.Uvarint()
	if size > len(d.b)-d.i {
		d.short()
	}
	if d.err != nil {
		return -1, 0
	}
	return number, size
}

// Skip reads n bytes and drops them.
func (d *Decoder) Skip(n int) {
	if n > len(d.b)-d.i {
		d.short()
		return
	}
	d.i += n
}

// SkipTags reads the tagged fields of a struct that knows none of them, and drops them.
func (d *Decoder) SkipTags() {
	for n := d.TagCount(); n > 0 && d.err == nil; n-- {
		_, size := d.TagHead()
		d.Skip(size)
	}
}

// KeepTags reads the tagged fields of a struct that knows none of them.
func (d *Decoder) KeepTags() []Tag {
	var tags []Tag
	for n := d.TagCount(); n > 0 && d.err == nil; n-- {
		number, size := d.TagHead()
		tags = d.KeepTag(tags, number, size)
	}
	return tags
}

// KeepTag reads the value of an unknown tagged field; it aliases the input.
func (d *Decoder) KeepTag(tags []Tag, number, size int) []Tag {
	v := d.take(size)
	if d.err != nil {
		return tags
	}
	return append(tags, Tag{number, v})
}

// BadTag records that a tagged field is there in a version that lacks it.
func (d *Decoder) BadTag() { d.Fail("tagged field that this version lacks") }

// Tags is the tagged fields of a struct while they are encoded.
type Tags struct {
	start, count, last int
}

// BeginTags starts the tagged fields of a struct.
func (e *Encoder) BeginTags() Tags {
	e.b = append(e.b, 0)
	return Tags{start: len(e.b) - 1, last: -1}
}

// BeginTag starts a tagged field; its value follows. Numbers rise.
func (e *Encoder) BeginTag(t *Tags, number int) (start int) {
	t.count++
	t.last = number
	e.Uvarint(number)
	e.b = append(e.b, 0)
	return len(e.b)
}

// EndTag writes the size of the tagged field that BeginTag began.
func (e *Encoder) EndTag(start int) { e.putUvarint(start-1, len(e.b)-start) }

// EndTags writes the fields that the schema does not know, then the count in front of all.
func (e *Encoder) EndTags(t *Tags, unknown []Tag) {
	for _, u := range unknown {
		if u.Number <= t.last {
			e.Fail("unknown tagged fields out of order")
			return
		}
		t.count++
		t.last = u.Number
		e.Uvarint(u.Number)
		e.Uvarint(len(u.Value))
		e.b = append(e.b, u.Value...)
	}
	e.putUvarint(t.start, t.count)
}

// putUvarint writes v over the byte at i; what follows makes room if it takes more bytes than one.
func (e *Encoder) putUvarint(i, v int) {
	if v < 0x80 {
		e.b[i] = byte(v)
		return
	}
	var buf [5]byte
	p := appendUvarint(buf[:0], uint32(v))
	extra := len(p) - 1
	e.b = append(e.b, p[:extra]...) // grow; the content moves over it
	copy(e.b[i+len(p):], e.b[i+1:len(e.b)-extra])
	copy(e.b[i:], p)
}

// NoTags writes the tagged fields of a struct that has none.
func (e *Encoder) NoTags() { e.b = append(e.b, 0) }

// FixedTag starts a tagged field of a known size below 128; its value follows, and nothing ends it.
func (e *Encoder) FixedTag(t *Tags, number, size int) {
	t.count++
	t.last = number
	e.Uvarint(number)
	e.b = append(e.b, byte(size))
}
