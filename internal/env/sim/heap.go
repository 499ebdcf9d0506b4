package sim

import "time"

// event is something that will happen.
type event struct {
	at    time.Duration
	seq   uint64 // order of making; decides between events of one time
	node  *Node  // whose event it is; nil = the world's
	kind  string
	name  string
	fn    func()
	index int  // in the heap; -1 = not there
	held  bool // by a frozen machine
}

func (ev *event) machine() *machine {
	if ev.node == nil {
		return nil
	}
	return ev.node.m
}

func (ev *event) before(other *event) bool {
	return ev.at < other.at || ev.at == other.at && ev.seq < other.seq
}

// heap gives events in the order of their times.
type heap []*event

func (h heap) peek() *event {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

func (h *heap) push(ev *event) {
	ev.index = len(*h)
	*h = append(*h, ev)
	h.up(ev.index)
}

func (h *heap) pop() *event {
	if len(*h) == 0 {
		return nil
	}
	first := (*h)[0]
	h.remove(first)
	return first
}

// remove says whether the event was still waiting.
func (h *heap) remove(ev *event) bool {
	i := ev.index
	if i < 0 {
		return false
	}
	last := len(*h) - 1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	ev.index = -1
	if i < last {
		h.down(i)
		h.up(i)
	}
	return true
}

func (h heap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h heap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

// timer is an event that can be called off.
type timer struct {
	w  *World
	ev *event
}

func (t timer) Stop() bool {
	if t.ev.held {
		t.ev.held = false
		return true
	}
	return t.w.events.remove(t.ev)
}
