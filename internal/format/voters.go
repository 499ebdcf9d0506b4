package format

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/uuid"
)

// voters are those of the bootstrap snapshot; nil if there are none in it.
func (o *Options) voters(rnd env.Rand) ([]raft.Voter, error) {
	if len(o.Config.QuorumVoters) > 0 && (o.Standalone || o.InitialControllers != "") {
		return nil, errors.New("You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead.")
	}
	switch {
	case o.InitialControllers != "":
		return parseVoters(o.InitialControllers, o.Config.ControllerListeners[0])
	case o.Standalone && !o.Config.HasRole(config.RoleController):
		return nil, errors.New("You can only use --standalone on a controller.")
	case o.Standalone:
		// Only the first listener: the node adds the others itself when it runs.
		first := raft.ControllerEndpoints(o.Config)[:1]
		return []raft.Voter{{Key: raft.ReplicaKey{ID: o.Config.NodeID, DirectoryID: uuid.Draw(rnd.Read)}, Endpoints: first, MaxKRaft: raft.MaxKRaftVersion}}, nil
	case !o.NoInitialControllers && o.Config.HasRole(config.RoleController) && len(o.Config.QuorumVoters) == 0:
		return nil, errors.New("Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers.")
	}
	return nil, nil
}

// parseVoters reads id@host:port:directory-id,…, in the order of the ids. Empty items count for nothing.
func parseVoters(text, listener string) ([]raft.Voter, error) {
	var out []raft.Voter
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			continue
		}
		v, err := parseVoter(strings.TrimSpace(item), listener)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o raft.Voter) bool { return o.Key.ID == v.Key.ID }) {
			return nil, fmt.Errorf("Node id %d was specified more than once.", v.Key.ID)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, errors.New("No voters given.")
	}
	slices.SortFunc(out, func(a, b raft.Voter) int { return cmp.Compare(a.Key.ID, b.Key.ID) })
	return out, nil
}

func parseVoter(item, listener string) (v raft.Voter, err error) {
	idText, rest, ok := strings.Cut(item, "@")
	switch {
	case !ok:
		return v, errors.New("No @ found in dynamic voter string.")
	case idText == "":
		return v, errors.New("Invalid @ at beginning of dynamic voter string.")
	}
	id, err := strconv.ParseInt(idText, 10, 32)
	switch {
	case err != nil:
		return v, errors.New("Failed to parse node id in dynamic voter string.")
	case id < 0:
		return v, fmt.Errorf("Invalid negative node id %d in dynamic voter string.", id)
	}
	host, rest, err := cutHost(rest)
	if err != nil {
		return v, err
	}
	portText, dirText, ok := strings.Cut(rest, ":")
	if !ok {
		return v, errors.New("No colon following port could be found.")
	}
	port, err := strconv.ParseInt(portText, 10, 32)
	switch {
	case err != nil:
		return v, errors.New("Failed to parse port in dynamic voter string.")
	case port < 0 || port > 65535:
		return v, fmt.Errorf("Invalid port %d in dynamic voter string.", port)
	}
	dir, err := uuid.Parse(dirText)
	if err != nil {
		return v, errors.New("Failed to parse directory ID in dynamic voter string.")
	}
	if dir.Reserved() { // Kafka takes it here, and refuses the directory when it starts
		return v, fmt.Errorf("Invalid reserved directory ID %s in dynamic voter string.", dir)
	}
	return raft.Voter{
		Key:       raft.ReplicaKey{ID: int32(id), DirectoryID: dir},
		Endpoints: []raft.Endpoint{{Name: listener, Host: host, Port: uint16(port)}}, MaxKRaft: raft.MaxKRaftVersion,
	}, nil
}

// cutHost takes the host, which may be an IPv6 address in brackets, and the colon behind it off.
func cutHost(text string) (host, rest string, err error) {
	if text == "" {
		return "", "", errors.New("No hostname found after node id.")
	}
	if bracketed, ok := strings.CutPrefix(text, "["); ok {
		if host, rest, ok = strings.Cut(bracketed, "]"); !ok {
			return "", "", errors.New("Hostname began with left bracket, but no right bracket was found.")
		}
		if rest, ok = strings.CutPrefix(rest, ":"); !ok {
			return "", "", errors.New("Port section must start with a colon.")
		}
		return host, rest, nil
	}
	host, rest, ok := strings.Cut(text, ":")
	if !ok {
		return "", "", errors.New("No colon following hostname could be found.")
	}
	if host == "" {
		host = "localhost"
	}
	return host, rest, nil
}
