package cuda

import "github.com/troupe-llm/troupe/compute"

// uploaded is a batch on the device: one array of numbers, of which attention reads
// [queries] rows, positions and starts of block tables, then the tables. All layers of a step
// use it: it stands until Sync.
type uploaded struct {
	of     *compute.Batch
	memory scratch
	host   []int32

	positions, slots   Ptr // [tokens] of RopeStore
	rows, pos, starts  Ptr // [queries]
	tables             Ptr
	numTokens, queries int
	maxTiles           int // tiles that a query goes through at most, without a window
	spec               compute.KVSpec
}

// upload returns b's numbers on the device.
func (b *Backend) upload(batch *compute.Batch, spec compute.KVSpec) *uploaded {
	for i := range b.batches {
		if b.batches[i].of == batch && b.batches[i].spec == spec {
			return &b.batches[i]
		}
	}
	u := &b.batches[b.next]
	b.next = (b.next + 1) % len(b.batches)
	u.gather(batch, spec)
	p := u.memory.grow(int64(4 * cap(u.host)))
	write(b, p, u.host)
	n, q := Ptr(4*u.numTokens), Ptr(4*u.queries)
	u.positions, u.slots = p, p+n
	u.rows, u.pos, u.starts, u.tables = p+2*n, p+2*n+q, p+2*n+2*q, p+2*n+3*q
	return u
}

// gather lays the numbers out.
func (u *uploaded) gather(batch *compute.Batch, spec compute.KVSpec) {
	u.of, u.spec, u.numTokens, u.queries, u.maxTiles = batch, spec, len(batch.Positions), 0, 0
	u.host = append(append(u.host[:0], batch.Positions...), batch.SlotMapping...)
	for i := range batch.Seqs {
		u.queries += batch.Seqs[i].QueryLen
		u.maxTiles = max(u.maxTiles, ceil(batch.Seqs[i].ContextLen, tile))
	}
	each := func(number func(q *compute.BatchSeq, i int) int) {
		for s := range batch.Seqs {
			for i := range batch.Seqs[s].QueryLen {
				u.host = append(u.host, int32(number(&batch.Seqs[s], i)))
			}
		}
	}
	each(func(q *compute.BatchSeq, i int) int { return q.QueryStart + i })
	each(func(q *compute.BatchSeq, i int) int { return q.ContextLen - q.QueryLen + i })
	start, last := 0, (*compute.BatchSeq)(nil)
	each(func(q *compute.BatchSeq, _ int) int {
		if last != nil && q != last {
			start += len(last.BlockTable)
		}
		last = q
		return start
	})
	for i := range batch.Seqs {
		if batch.Seqs[i].QueryLen > 0 {
			u.host = append(u.host, batch.Seqs[i].BlockTable...)
		}
	}
}
