package config

import (
	"cmp"
	"errors"
	"fmt"
)

// problem is what is wrong with a setting, and where that stands.
type problem struct {
	key string
	at  Entry // empty: nowhere
	err error
}

func (p *problem) Error() string {
	if p.at.File == "" {
		return p.err.Error()
	}
	return p.at.Where() + ": " + p.err.Error()
}

func (p *problem) Unwrap() error { return p.err }

// problem names a key's place, if it was given.
func (n *Node) problem(key, format string, args ...any) error {
	return &problem{key, n.originals[key], fmt.Errorf(format, args...)}
}

// byPlace orders problems: those that stand nowhere, then the lines of files, then variables and flags.
func byPlace(a, b error) int {
	rank := func(err error) (class, line int) {
		var p *problem
		switch {
		case !errors.As(err, &p) || p.at.File == "":
			return 0, 0
		case p.at.Line > 0:
			return 1, p.at.Line
		}
		return 2, 0
	}
	classA, lineA := rank(a)
	classB, lineB := rank(b)
	return cmp.Or(cmp.Compare(classA, classB), cmp.Compare(lineA, lineB))
}
