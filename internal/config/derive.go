package config

import (
	"errors"
	"slices"
)

// checks are what settings must be together, each with the keys that it rests on. One that a wrong value feeds would
// only speak of consequences, and is left out.
var checks = []struct {
	needs []string
	check func(*Node) []error
}{
	{[]string{"node.id", "broker.id"}, (*Node).deriveID},
	{[]string{"process.roles"}, (*Node).deriveRoles},
	{nil, (*Node).checkRetention},
	{[]string{"log.dirs", "log.dir"}, (*Node).deriveDirs},
	{[]string{"controller.listener.names"}, (*Node).deriveControllerListeners},
	{[]string{"listener.security.protocol.map"}, (*Node).checkProtocols},
	{[]string{"listeners", "advertised.listeners"}, (*Node).parseListeners},
	{[]string{"listeners", "advertised.listeners", "listener.security.protocol.map", "controller.listener.names"}, (*Node).giveProtocols},
	{[]string{"listeners", "advertised.listeners", "listener.security.protocol.map", "controller.listener.names", "process.roles"}, (*Node).checkListeners},
	{[]string{"listeners", "advertised.listeners", "listener.security.protocol.map", "controller.listener.names", "process.roles"}, (*Node).deriveTold},
	{nil, (*Node).deriveQuorum},
	{[]string{"controller.quorum.voters", "node.id", "broker.id", "process.roles"}, (*Node).checkVoters},
}

// derive fills the typed fields, and adds what is wrong there to the problems of single values.
func (n *Node) derive(problems []error) []error {
	wrong := map[string]bool{}
	note := func(list []error) {
		for _, err := range list {
			var p *problem
			if errors.As(err, &p) {
				wrong[p.key] = true
			}
		}
	}
	note(problems)
	for _, c := range checks {
		if slices.ContainsFunc(c.needs, func(key string) bool { return wrong[key] }) {
			continue
		}
		found := c.check(n)
		note(found)
		problems = append(problems, found...)
	}
	return problems
}

func (n *Node) deriveID() []error {
	n.NodeID = int32(n.Int("node.id"))
	if id := n.Int("broker.id"); id >= 0 && id != int(n.NodeID) {
		return []error{n.problem("broker.id", "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, please use `node.id` instead.")}
	}
	return nil
}

func (n *Node) deriveRoles() []error {
	n.Roles = n.List("process.roles")
	return nil
}

func (n *Node) checkRetention() (problems []error) {
	for _, key := range []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"} {
		if v, ok := n.Lookup(key); ok && v == "0" {
			problems = append(problems, n.problem(key, "%s must be unlimited (-1) or, greater than or equal to 1", key))
		}
	}
	return problems
}

func (n *Node) deriveDirs() []error {
	n.LogDirs = n.List("log.dirs")
	if len(n.LogDirs) == 0 {
		n.LogDirs = n.List("log.dir")
	}
	if n.MetadataLogDir = n.String("metadata.log.dir"); n.MetadataLogDir == "" {
		n.MetadataLogDir = n.LogDirs[0]
	}
	return nil
}

// deriveQuorum reads where the controllers are.
func (n *Node) deriveQuorum() (problems []error) {
	voters, err := ParseVoters(n.List("controller.quorum.voters"))
	if err != nil {
		problems = append(problems, n.problem("controller.quorum.voters", "%w", err))
	}
	n.QuorumVoters = voters
	for _, s := range n.List("controller.quorum.bootstrap.servers") {
		hp, err := ParseHostPort(s)
		if err != nil {
			problems = append(problems, n.problem("controller.quorum.bootstrap.servers", "Failed to parse host name from %s for the configuration controller.quorum.bootstrap.servers. Each entry should be in the form \"{host}:{port}\"", s))
		}
		n.QuorumBootstrapServer = append(n.QuorumBootstrapServer, hp)
	}
	if len(voters) == 0 && len(n.QuorumBootstrapServer) == 0 && err == nil {
		problems = append(problems, errors.New("If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap controllers or controller.quorum.voters must contain a parseable set of controllers.")) //nolint:staticcheck // Kafka's words
	}
	return problems
}

func (n *Node) checkVoters() []error {
	isVoter := slices.ContainsFunc(n.QuorumVoters, func(v Voter) bool { return v.ID == n.NodeID })
	switch {
	case len(n.QuorumVoters) > 0 && n.HasRole(RoleController) && !isVoter:
		return []error{n.problem("node.id", "If process.roles contains the 'controller' role, the node id %d must be included in the set of voters controller.quorum.voters=%s", n.NodeID, n.String("controller.quorum.voters"))}
	case len(n.QuorumVoters) > 0 && !n.HasRole(RoleController) && isVoter:
		return []error{n.problem("node.id", "If process.roles contains just the 'broker' role, the node id %d must not be included in the set of voters controller.quorum.voters=%s", n.NodeID, n.String("controller.quorum.voters"))}
	}
	return nil
}
