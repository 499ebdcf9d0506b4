package controller

import (
	"fmt"
	"strings"

	"github.com/ottla-io/ottla/internal/acl"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// clusterResource is the only name that the resource of type CLUSTER has.
const clusterResource = "kafka-cluster"

// bindingOf is what an entry says, without its id: two entries never say the same.
func bindingOf(r *metadata.AccessControlEntryRecord) acl.Binding {
	return acl.Binding{ResourceType: r.ResourceType, ResourceName: r.ResourceName, PatternType: r.PatternType, Principal: r.Principal, Host: r.Host, Operation: r.Operation, Permission: r.PermissionType}
}

// createACLs works out the records of a CreateAcls request. What is there already is created successfully, and not
// written again.
func (s *security) createACLs(req *protocol.CreateAclsRequest, newID func() uuid.UUID) (Result[*protocol.CreateAclsResponse], error) {
	resp := protocol.NewCreateAclsResponse()
	var records []metadata.Versioned
	created := map[acl.Binding]bool{}
	for _, c := range req.Creations {
		b := acl.Binding{ResourceType: c.ResourceType, ResourceName: c.ResourceName, PatternType: c.ResourcePatternType, Principal: c.Principal, Host: c.Host, Operation: c.Operation, Permission: c.PermissionType}
		result := protocol.NewCreateAclsResponseAclCreationResult()
		if err := checkBinding(b); err != nil {
			result.ErrorCode, result.ErrorMessage = codeAndMessage(err)
		} else if !created[b] && !s.bindings.Has(b) {
			created[b] = true
			r := metadata.NewAccessControlEntryRecord()
			r.Id, r.ResourceType, r.ResourceName, r.PatternType = newID(), b.ResourceType, b.ResourceName, b.PatternType
			r.Principal, r.Host, r.Operation, r.PermissionType = b.Principal, b.Host, b.Operation, b.Permission
			records = append(records, metadata.Versioned{Record: r})
		}
		resp.Results = append(resp.Results, result)
	}
	if len(records) > maxRecordsPerUserOp {
		return Result[*protocol.CreateAclsResponse]{}, errTooManyRecords
	}
	return Result[*protocol.CreateAclsResponse]{Records: records, Response: resp, Atomic: true}, nil
}

func checkBinding(b acl.Binding) *apiError {
	invalid := func(format string, args ...any) *apiError {
		return fail(kerr.InvalidRequest, fmt.Sprintf(format, args...))
	}
	switch {
	case b.ResourceType == acl.ResourceCluster && b.ResourceName != clusterResource:
		return invalid("The only valid name for the CLUSTER resource is %s", clusterResource)
	case b.ResourceName == "":
		return invalid("Invalid empty resource name")
	case b.ResourceType <= acl.ResourceAny || b.ResourceType > acl.LastResource:
		return invalid("Invalid resourceType %s", acl.ResourceText(b.ResourceType))
	case b.PatternType != acl.Literal && b.PatternType != acl.Prefixed:
		return invalid("Invalid patternType %s", acl.PatternText(b.PatternType))
	case b.Operation <= acl.OperationAny || b.Operation > acl.LastOperation:
		return invalid("Invalid operation %s", acl.OperationText(b.Operation))
	case b.Permission != acl.Deny && b.Permission != acl.Allow:
		return invalid("Invalid permissionType %s", acl.PermissionText(b.Permission))
	case !strings.Contains(b.Principal, ":"):
		return invalid("Could not parse principal from `%s` (no colon is present separating the principal type from the principal name)", b.Principal)
	}
	return nil
}

// deleteACLs works out the records of a DeleteAcls request. An entry that several filters match is told by each.
func (s *security) deleteACLs(req *protocol.DeleteAclsRequest) (Result[*protocol.DeleteAclsResponse], error) {
	resp := protocol.NewDeleteAclsResponse()
	var records []metadata.Versioned
	removed := map[uuid.UUID]bool{}
	for i := range req.Filters {
		f := &req.Filters[i]
		filter := acl.Filter{ResourceType: f.ResourceTypeFilter, ResourceName: f.ResourceNameFilter, PatternType: f.PatternTypeFilter, Principal: f.PrincipalFilter, Host: f.HostFilter, Operation: f.Operation, Permission: f.PermissionType}
		var result protocol.DeleteAclsResponseDeleteAclsFilterResult
		if what := filter.Unknown(); what != "" {
			result.ErrorCode, result.ErrorMessage = codeAndMessage(fail(kerr.InvalidRequest, "Unknown "+what+"."))
			resp.FilterResults = append(resp.FilterResults, result)
			continue
		}
		for id, r := range s.acls.All() {
			b := bindingOf(r)
			if !filter.Matches(b) {
				continue
			}
			result.MatchingAcls = append(result.MatchingAcls, protocol.DeleteAclsResponseDeleteAclsMatchingAcl{
				ResourceType: b.ResourceType, ResourceName: b.ResourceName, PatternType: b.PatternType,
				Principal: b.Principal, Host: b.Host, Operation: b.Operation, PermissionType: b.Permission,
			})
			if !removed[id] {
				removed[id] = true
				rec := metadata.NewRemoveAccessControlEntryRecord()
				rec.Id = id
				records = append(records, metadata.Versioned{Record: rec})
			}
			if len(records) > maxRecordsPerUserOp {
				return Result[*protocol.DeleteAclsResponse]{}, errTooManyRecords
			}
		}
		resp.FilterResults = append(resp.FilterResults, result)
	}
	return Result[*protocol.DeleteAclsResponse]{Records: records, Response: resp, Atomic: true}, nil
}
