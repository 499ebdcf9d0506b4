package ottlatest_test

import (
	"fmt"
	"testing"

	"github.com/ottla-io/ottla/ottlatest"
)

// BenchmarkStart tells how long it takes until a cluster with a topic can be used.
func BenchmarkStart(b *testing.B) {
	for _, n := range []struct{ brokers, controllers int }{{1, 0}, {3, 3}} {
		b.Run(fmt.Sprintf("brokers=%d/controllers=%d", n.brokers, n.controllers), func(b *testing.B) {
			for b.Loop() {
				c := ottlatest.Start(b, ottlatest.Brokers(n.brokers), ottlatest.Controllers(n.controllers), ottlatest.Topic("orders", 3))
				b.StopTimer()
				c.Close()
				b.StartTimer()
			}
		})
	}
}
