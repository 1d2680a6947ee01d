package ids

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/oklog/ulid/v2"
)

// moments is the number of milliseconds whose sequences are kept, the most recently used ones.
// Several are needed because callers read the clock before they make an id, so that ids of
// neighbouring milliseconds interleave.
const moments = 4096

// sequence is the random part of the last id of a millisecond. The next id is a random step above
// it, so that the ids of one millisecond are in the order in which they were made.
type sequence struct {
	high uint16
	low  uint64
}

// minted is shared by the process.
var minted = struct { //nolint:gochecknoglobals // a source of randomness carries no state a caller could see
	sync.Mutex
	sequences *simplelru.LRU[uint64, *sequence]
}{sequences: remembered()}

func remembered() *simplelru.LRU[uint64, *sequence] {
	sequences, err := simplelru.NewLRU[uint64, *sequence](moments, nil)
	if err != nil {
		panic("ids: " + err.Error())
	}
	return sequences
}

func mint(at time.Time) ulid.ULID {
	var id ulid.ULID
	ms := ulid.Timestamp(at)
	if err := id.SetTime(ms); err != nil {
		panic(err) // past the year 10889
	}
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails

	minted.Lock()
	defer minted.Unlock()
	last, found := minted.sequences.Get(ms)
	if !found {
		// The highest bit starts as zero, so that a sequence does not overflow.
		last = &sequence{high: binary.BigEndian.Uint16(random[:2]) >> 1, low: binary.BigEndian.Uint64(random[2:])}
		minted.sequences.Add(ms, last)
	} else {
		before := last.low
		last.low += uint64(binary.BigEndian.Uint32(random[:4])) + 1
		if last.low < before {
			last.high++
		}
	}
	binary.BigEndian.PutUint16(id[6:8], last.high)
	binary.BigEndian.PutUint64(id[8:], last.low)
	return id
}
