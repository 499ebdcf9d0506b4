package broker

import (
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/uuid"
)

// ControllerRegistration keeps a controller of the quorum registered with the active one (KIP-919): it asks for a RegisterControllerRecord
// as long as the metadata log has none of this incarnation. A publisher, and a core on its own queue.
type ControllerRegistration struct {
	env         env.Env
	queue       env.Queue
	channel     Channel
	id          int32
	incarnation uuid.UUID
	endpoints   []image.Endpoint

	// Belong to the queue.
	img        *image.Image
	registered bool
	inFlight   bool
	failures   int
}

// NewControllerRegistration returns a publisher for a controller with an id, the incarnation of its process and the endpoints of its
// controller listeners.
func NewControllerRegistration(e env.Env, ch Channel, id int32, incarnation uuid.UUID, endpoints []image.Endpoint) *ControllerRegistration {
	return &ControllerRegistration{
		env: e, queue: e.NewQueue("controller-registration"), channel: ch, id: id, incarnation: incarnation, endpoints: endpoints, img: image.Empty,
	}
}

// Name is the publisher's name.
func (c *ControllerRegistration) Name() string { return "ControllerRegistrationManager" }

// OnControllerChange does nothing: the channel finds the controller.
func (c *ControllerRegistration) OnControllerChange(raft.LeaderAndEpoch) {}

// OnMetadataUpdate looks at our registration when it or the metadata.version changed.
func (c *ControllerRegistration) OnMetadataUpdate(d *image.Delta, img *image.Image, _ image.Manifest) {
	ours := false
	for _, id := range d.Controllers() {
		ours = ours || id == c.id
	}
	if !ours && !d.MetadataVersionChanged() {
		return
	}
	c.queue.Post("metadata update", func() {
		c.img = img
		if ours {
			c.look()
		}
		c.register()
	})
}

// Close ends it.
func (c *ControllerRegistration) Close(done func()) { c.queue.Close(done) }

func (c *ControllerRegistration) look() {
	switch r := c.img.Cluster.Controller(c.id); {
	case r == nil:
		c.env.Logger().Info("Registration removed for this node ID.")
		c.registered = false
	case r.IncarnationID != c.incarnation:
		c.env.Logger().Info(fmt.Sprintf("Found registration for %s instead of our incarnation.", r.IncarnationID))
		c.registered = false
	default:
		c.env.Logger().Info("Our registration has been persisted to the metadata log.")
		c.registered = true
	}
}

func (c *ControllerRegistration) register() {
	if c.registered || c.inFlight || !c.img.Features.MetadataVersion().ControllerRegistration() {
		return
	}
	req := protocol.NewControllerRegistrationRequest()
	req.ControllerId, req.IncarnationId = c.id, c.incarnation
	for _, e := range c.endpoints {
		req.Listeners = append(req.Listeners, protocol.ControllerRegistrationRequestListener{Name: e.Name, Host: e.Host, Port: e.Port, SecurityProtocol: e.SecurityProtocol})
	}
	for _, f := range supportedFeatures() {
		req.Features = append(req.Features, protocol.ControllerRegistrationRequestFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
	}
	c.inFlight = true
	c.channel.Send(nil, req, 0, func(resp protocol.Response, err error) {
		c.queue.Post("registration answer", func() { c.answered(resp, err) })
	})
}

func (c *ControllerRegistration) answered(resp protocol.Response, err error) {
	c.inFlight = false
	r, _ := resp.(*protocol.ControllerRegistrationResponse)
	if err == nil && r != nil && r.ErrorCode == kerr.None {
		c.failures = 0
		c.env.Logger().Info("RegistrationResponseHandler: controller acknowledged ControllerRegistrationRequest.")
		return
	}
	if r != nil {
		err = kerr.FromCode(r.ErrorCode)
	}
	c.env.Logger().Info("RegistrationResponseHandler: the controller was not registered", "err", err)
	delay := min(minBackOff<<min(c.failures, 16), 10*time.Second)
	c.failures++
	c.queue.After(delay, "register again", c.register)
}
