package acl

import "testing"

func TestMatches(t *testing.T) {
	text := func(s string) *string { return &s }
	literal := Binding{ResourceTopic, "orders", Literal, "User:a", "*", 3, Allow}
	prefixed := Binding{ResourceTopic, "ord", Prefixed, "User:a", "*", 3, Allow}
	every := Binding{ResourceTopic, "*", Literal, "User:a", "*", 3, Allow}
	all := Filter{ResourceAny, nil, PatternAny, nil, nil, OperationAny, PermissionAny}
	with := func(change func(f *Filter)) Filter {
		f := all
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		filter                   Filter
		literal, prefixed, every bool
	}{
		"any":           {all, true, true, true},
		"name":          {with(func(f *Filter) { f.ResourceName = text("orders") }), true, false, false},
		"match":         {with(func(f *Filter) { f.ResourceName, f.PatternType = text("orders"), Match }), true, true, true},
		"match another": {with(func(f *Filter) { f.ResourceName, f.PatternType = text("payments"), Match }), false, false, true},
		"match any":     {with(func(f *Filter) { f.PatternType = Match }), true, true, true},
		"literal":       {with(func(f *Filter) { f.PatternType = Literal }), true, false, true},
		"prefixed name": {with(func(f *Filter) { f.ResourceName, f.PatternType = text("ord"), Prefixed }), false, true, false},
		"other type":    {with(func(f *Filter) { f.ResourceType = ResourceCluster }), false, false, false},
		"principal":     {with(func(f *Filter) { f.Principal = text("User:b") }), false, false, false},
		"host":          {with(func(f *Filter) { f.Host = text("127.0.0.1") }), false, false, false},
		"operation":     {with(func(f *Filter) { f.Operation = 4 }), false, false, false},
		"permission":    {with(func(f *Filter) { f.Permission = Deny }), false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for i, want := range []bool{c.literal, c.prefixed, c.every} {
				if b := []Binding{literal, prefixed, every}[i]; c.filter.Matches(b) != want {
					t.Errorf("%+v: %t, want %t", b, !want, want)
				}
			}
		})
	}
}

func TestUnknown(t *testing.T) {
	for want, f := range map[string]Filter{
		"":              {1, nil, 1, nil, nil, 1, 1},
		"patternFilter": {99, nil, 1, nil, nil, 1, 1},
		"entryFilter":   {1, nil, 1, nil, nil, -3, 1},
	} {
		if got := f.Unknown(); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}
