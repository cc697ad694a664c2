package main

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
)

// stringKey returns the i-th string key: 26 bytes, all distinct, in memory of its
// own.
func stringKey(i int) string {
	key := make([]byte, 0, 26)
	key = append(key, "session:"...)
	// The low bits of a product with an odd number differ as long as those of i do,
	// and up to 2^43 they leave the number at 13 digits.
	key = strconv.AppendUint(key, 1e12+mixed(i)&(1<<43-1), 10)
	key = append(key, "-user"...)
	return string(key)
}

// mixed returns the i-th uint64 key: nothing that a weak hash could profit from.
func mixed(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }

// payloads are the values for string keys. They lie side by side in a few large
// blocks, so that the collector spends little on them: that cost is no cache's own.
// Goroutines may share them.
type payloads struct {
	blocks [1 << 14]atomic.Pointer[[payloadBlock]Payload]
}

const payloadBlock = 1 << 16

// at returns the i-th value, whose ID is i.
func (p *payloads) at(i int) *Payload {
	slot := &p.blocks[i/payloadBlock]
	block := slot.Load()
	for block == nil {
		made := new([payloadBlock]Payload)
		for j := range made {
			made[j].ID = uint64(i - i%payloadBlock + j)
		}
		slot.CompareAndSwap(nil, made)
		block = slot.Load()
	}
	return &block[i%payloadBlock]
}

func stringBench(p *Peer) *Bench[string, *Payload] {
	return &Bench[string, *Payload]{Peer: p, New: p.Strings, Key: stringKey, Value: new(payloads).at}
}

func uint64Bench(p *Peer) *Bench[uint64, uint64] {
	return &Bench[uint64, uint64]{Peer: p, New: p.Uint64s, Key: mixed, Value: func(i int) uint64 { return uint64(i) }}
}

// picks returns which of n keys to look up, one after the other. The most wanted
// of a Zipf distribution lie anywhere among the keys.
func picks(n int, dist string, seed uint64) []uint32 {
	drawn := make([]uint32, 1<<20)
	r := rand.New(rand.NewPCG(seed, 2))
	if dist == "zipf" {
		zipf := rand.NewZipf(r, 1.01, 1, uint64(n-1))
		scramble := r.Perm(n)
		for i := range drawn {
			drawn[i] = uint32(scramble[zipf.Uint64()])
		}
		return drawn
	}
	for i := range drawn {
		drawn[i] = uint32(r.IntN(n))
	}
	return drawn
}

// settle has a cache come to rest after Sets.
func settle(c any) {
	flush(c)
	runtime.GC()
}

// flush waits for what a cache does later: a peer that buffers what it is told has
// a method Settle.
func flush(c any) {
	if c, ok := c.(interface{ Settle() }); ok {
		c.Settle()
	}
}

// registerWorkload is called by each workload's file, from init.
func registerWorkload(w Workload) { workloads = append(workloads, w) }

var workloads []Workload
