package cli

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/format"
)

// serverErrors names the program in front of every problem.
func serverErrors(err error) error {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, "ottla server: "+line)
	}
	return errors.New(strings.Join(lines, "\n"))
}

// advised adds to what keeps a node from opening what can be done about it.
func advised(err error, cfg *config.Node, settings settings) error {
	advice := advice(err, cfg, settings)
	if advice == "" {
		return serverErrors(err)
	}
	return serverErrors(fmt.Errorf("%s. %s", strings.TrimSuffix(err.Error(), "."), advice))
}

func advice(err error, cfg *config.Node, settings settings) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, format.ErrNotFormatted) && settings.ownDefaults:
		return fmt.Sprintf("%s is neither empty nor a folder of Kafka's or Ottla's: choose another one with --override log.dirs=FOLDER", strings.Join(cfg.LogDirs, ", "))
	case errors.Is(err, format.ErrNotFormatted):
		choice := ""
		if cfg.HasRole(config.RoleController) && len(cfg.QuorumVoters) == 0 {
			choice = " --standalone"
		}
		return fmt.Sprintf("Format %s first: ottla storage format --config %s --cluster-id $(ottla storage random-uuid)%s", strings.Join(cfg.LogDirs, ", "), settings.path, choice)
	case errors.Is(err, format.ErrOtherCluster):
		return "Take the folder that is not of this cluster out of log.dirs"
	case errors.Is(err, env.ErrLocked):
		return "Stop that one, or choose another folder in log.dirs"
	case errors.Is(err, syscall.EADDRINUSE):
		return "Stop what listens there, or choose another port in listeners"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "That address is not one of this machine: choose another host in listeners, or none for all of its addresses"
	case errors.As(err, &dns):
		return "That name is not known here: choose another host in listeners, or none for all of this machine's addresses"
	case errors.Is(err, syscall.EACCES) && errors.As(err, new(*net.OpError)):
		return "Not everybody may listen on ports below 1024: choose another port in listeners"
	}
	return ""
}
