package raft

import (
	"errors"

	"github.com/ottla-io/ottla/internal/env"
)

func openSegments(e env.Env, cfg *Config) (segments, error) { return nil, errors.ErrUnsupported }
