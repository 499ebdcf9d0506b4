package rpc

import "testing"

func TestClientHost(t *testing.T) {
	for remote, want := range map[string]string{
		"127.0.0.1:5000":           "/127.0.0.1",
		"[::1]:5000":               "/0:0:0:0:0:0:0:1",
		"[2001:db8::ff00:42]:80":   "/2001:db8:0:0:0:0:ff00:42",
		"[::ffff:10.0.0.1]:80":     "/10.0.0.1",
		"somewhere without a port": "/somewhere without a port",
	} {
		if got := (&Context{RemoteAddr: remote}).ClientHost(); got != want {
			t.Errorf("client host of %s is %s, want %s", remote, got, want)
		}
	}
}
