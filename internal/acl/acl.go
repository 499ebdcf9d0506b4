package acl

import "strings"

// Binding is an access control entry: who may, or may not, do what with which resources, and from where.
type Binding struct {
	ResourceType int8
	ResourceName string
	PatternType  int8
	Principal    string // type:name
	Host         string
	Operation    int8
	Permission   int8
}

// Types of resources.
const (
	ResourceAny     int8 = 1
	ResourceTopic   int8 = 2
	ResourceCluster int8 = 4
	LastResource    int8 = 7
)

// Types of patterns.
const (
	PatternAny int8 = 1 // in filters: whatever the pattern
	Match      int8 = 2 // in filters: entries that concern the name
	Literal    int8 = 3
	Prefixed   int8 = 4
)

// Operations and permissions.
const (
	OperationAny  int8 = 1
	OperationAll  int8 = 2
	LastOperation int8 = 15

	PermissionAny int8 = 1
	Deny          int8 = 2
	Allow         int8 = 3
)

// wildcard is the literal name that stands for all resources of a type.
const wildcard = "*"

// Names, by number. What is not among them is unknown, the first of each.
var (
	resources   = []string{"UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"}
	patterns    = []string{"UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"}
	operations  = []string{"UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"}
	permissions = []string{"UNKNOWN", "ANY", "DENY", "ALLOW"}
)

func name(names []string, code int8) string {
	if code < 0 || int(code) >= len(names) {
		return names[0]
	}
	return names[code]
}

// ResourceText is the name of a type of resources.
func ResourceText(code int8) string { return name(resources, code) }

// PatternText is the name of a type of patterns.
func PatternText(code int8) string { return name(patterns, code) }

// OperationText is the name of an operation.
func OperationText(code int8) string { return name(operations, code) }

// PermissionText is the name of a permission.
func PermissionText(code int8) string { return name(permissions, code) }

// Filter says which entries are meant. A nil text means any.
type Filter struct {
	ResourceType int8
	ResourceName *string
	PatternType  int8
	Principal    *string
	Host         *string
	Operation    int8
	Permission   int8
}

// Unknown names the part of a filter that has a number without a meaning; empty if there is none.
func (f *Filter) Unknown() string {
	switch {
	case ResourceText(f.ResourceType) == resources[0], PatternText(f.PatternType) == patterns[0]:
		return "patternFilter"
	case OperationText(f.Operation) == operations[0], PermissionText(f.Permission) == permissions[0]:
		return "entryFilter"
	}
	return ""
}

// Matches reports whether an entry is meant.
func (f *Filter) Matches(b Binding) bool {
	return (f.ResourceType == ResourceAny || f.ResourceType == b.ResourceType) && f.matchesName(b) &&
		(f.Principal == nil || *f.Principal == b.Principal) && (f.Host == nil || *f.Host == b.Host) &&
		(f.Operation == OperationAny || f.Operation == b.Operation) &&
		(f.Permission == PermissionAny || f.Permission == b.Permission)
}

func (f *Filter) matchesName(b Binding) bool {
	switch {
	case f.PatternType != PatternAny && f.PatternType != Match && f.PatternType != b.PatternType:
		return false
	case f.ResourceName == nil:
		return true
	case f.PatternType != Match:
		return *f.ResourceName == b.ResourceName
	case b.PatternType == Literal:
		return *f.ResourceName == b.ResourceName || b.ResourceName == wildcard
	case b.PatternType == Prefixed:
		return strings.HasPrefix(*f.ResourceName, b.ResourceName)
	}
	return false
}
