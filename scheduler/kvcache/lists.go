package kvcache

// stack is a last-in, first-out list of blocks, linked through block.next.
type stack struct {
	top int32 // none if empty
	len int
}

func (s *stack) push(blocks []block, b int32) {
	blocks[b].next = s.top
	s.top = b
	s.len++
}

// pop removes the top of a stack that is not empty.
func (s *stack) pop(blocks []block) int32 {
	b := s.top
	s.top = blocks[b].next
	s.len--
	return b
}

// lru is a list of blocks in the order in which they were pushed, linked both
// ways through block.prev and block.next so that any of them leaves in O(1).
type lru struct {
	oldest, newest int32 // none if empty
	len            int
}

func (l *lru) push(blocks []block, b int32) {
	blocks[b].prev, blocks[b].next = l.newest, none
	if l.newest == none {
		l.oldest = b
	} else {
		blocks[l.newest].next = b
	}
	l.newest = b
	l.len++
}

// remove takes out b, which must be in the list.
func (l *lru) remove(blocks []block, b int32) {
	prev, next := blocks[b].prev, blocks[b].next
	if prev == none {
		l.oldest = next
	} else {
		blocks[prev].next = next
	}
	if next == none {
		l.newest = prev
	} else {
		blocks[next].prev = prev
	}
	l.len--
}
