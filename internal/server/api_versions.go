package server

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// versions answers ApiVersions on one kind of listener.
type versions struct {
	o     *Options
	kind  Kind
	table map[int16]*api
}

// software is what names and versions of client software look like (KIP-511).
var software = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func validSoftware(req *protocol.ApiVersionsRequest) bool {
	return software.MatchString(req.ClientSoftwareName) && software.MatchString(req.ClientSoftwareVersion)
}

// answer is ApiVersions, key 18, versions 0–5. v3: the client's software (KIP-511), features (KIP-584). v4: features whose lowest level is
// 0 (KIP-1022). v5: whom the client believes to be talking to (KIP-1242). Path: the table → features of the image. Errors: 42 a name or
// version of software that is none, or cluster without node or the other way round; 129 a broker that is another one; 35 in version 0 for
// versions that do not exist.
func (v *versions) answer(ctx *rpc.Context, req *protocol.ApiVersionsRequest, respond func(*protocol.ApiVersionsResponse)) {
	resp := protocol.NewApiVersionsResponse()
	if err := v.check(ctx.APIVersion, req); err != nil {
		resp.ErrorCode = err.Code
		respond(resp)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(v.table)) {
		resp.ApiKeys = append(resp.ApiKeys, advertised(v.table[key]))
	}
	v.features(resp, ctx.APIVersion)
	respond(resp)
}

func (v *versions) check(version int16, req *protocol.ApiVersionsRequest) *kerr.Error {
	switch {
	case version < 3:
	case !validSoftware(req):
		return kerr.InvalidRequest
	case version < 5 || req.ClusterId == nil && req.NodeId == -1:
	case req.ClusterId == nil || req.NodeId == -1:
		return kerr.InvalidRequest
	case v.kind == OnBroker && (*req.ClusterId != v.o.ClusterID || req.NodeId != v.o.NodeID): // a controller does not mind
		return kerr.RebootstrapRequired
	}
	return nil
}

// advertised is what clients are told of an API. Produce is there from version 0 on, although the first three end the connection:
// older librdkafka takes the lowest version for the sign that compression is not supported (KAFKA-18659).
func advertised(a *api) protocol.ApiVersionsResponseApiVersion {
	out := protocol.ApiVersionsResponseApiVersion{ApiKey: a.key, MinVersion: a.min, MaxVersion: a.max}
	if a.key == protocol.KeyProduce {
		out.MinVersion = 0
	}
	return out
}

func (v *versions) features(resp *protocol.ApiVersionsResponse, version int16) {
	for _, f := range slices.SortedFunc(slices.Values(metadata.Features[:]), func(a, b metadata.Feature) int { return strings.Compare(a.Name, b.Name) }) {
		if f.Min == 0 && version < 4 {
			continue
		}
		resp.SupportedFeatures = append(resp.SupportedFeatures, protocol.ApiVersionsResponseSupportedFeatureKey{Name: f.Name, MinVersion: f.Min, MaxVersion: f.Max})
	}
	img := v.o.Image()
	resp.FinalizedFeaturesEpoch = img.Provenance.Offset
	finalized := func(name string, level int16) {
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, protocol.ApiVersionsResponseFinalizedFeatureKey{Name: name, MinVersionLevel: level, MaxVersionLevel: level})
	}
	for name, level := range img.Features.All() {
		finalized(name, level)
	}
	if level := v.o.KRaftVersion(); level > 0 {
		finalized(metadata.FeatureKRaft, level)
	}
}

// unsupportedVersion is the answer to a version of ApiVersions that is not known: the versions of ApiVersions itself.
func unsupportedVersion(a *api) *protocol.ApiVersionsResponse {
	resp := protocol.NewApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = []protocol.ApiVersionsResponseApiVersion{advertised(a)}
	return resp
}
