// The frames of docs/reference/client-protocol.md, for high rates: records and outcomes as rows of fixed width.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"
)

const (
	headBytes, recordBytes, outcomeBytes = 16, 24, 48
	recordsKind, outcomesKind            = 1, 2
	frameBytesMax                        = 8 << 20
	gathered                             = time.Millisecond      // many outcomes of so long go into one frame
	manyApart                            = 50 * time.Microsecond // closer together they are many
	isAcknowledged, isFailed, isUnknown  = int16(0), int16(1), int16(2)
)

const (
	inFlightMax = 100_000 // records without an outcome
	fastGC      = 400     // instead of 100: at high rates a fifth of the processor time went into the collection of records
)

var (
	topics []string // that records of frames name by a number
	little = binary.LittleEndian
	rows   []byte // rows that no frame has yet; guarded by lock, as what is written is
	wake   = make(chan bool, 1)
)

// framed is a record of a frame. Key and Value are parts of the frame itself, nil for none.
type framed struct {
	Seq        int64
	Topic      int32 // its place in `topics` of connect
	Partition  int32 // -1 for none
	Key, Value []byte
}

// beFast is called when a producer connects. `given` is empty if no frames will come.
func beFast(given []string) {
	topics = given
	if len(topics) > 0 && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(fastGC)
	}
}

// readFrame reads what stands after the first byte was seen, and gives each record to `give`.
func readFrame(in io.Reader, give func(count int, record func(i int) framed)) {
	head := make([]byte, headBytes)
	if _, err := io.ReadFull(in, head); err != nil {
		return // the end of the input, which the next read finds too
	}
	count, size := int(little.Uint32(head[4:])), little.Uint64(head[8:])
	if head[0] != recordsKind || size > frameBytesMax || uint64(count*recordBytes) > size {
		fmt.Fprintln(os.Stderr, "a frame that cannot be read")
		os.Exit(1)
	}
	contents := make([]byte, size)
	if _, err := io.ReadFull(in, contents); err != nil {
		return
	}
	keys := contents[count*recordBytes:]
	values := keys
	for i := range count {
		values = values[max(0, int32(little.Uint32(contents[i*recordBytes+16:]))):]
	}
	give(count, func(i int) framed {
		row := contents[i*recordBytes:]
		one := framed{Seq: int64(little.Uint64(row)), Topic: int32(little.Uint32(row[8:])), Partition: int32(little.Uint32(row[12:]))}
		one.Key, keys = cut(keys, int32(little.Uint32(row[16:])))
		one.Value, values = cut(values, int32(little.Uint32(row[20:])))
		return one
	})
}

func cut(from []byte, size int32) (part, rest []byte) {
	if size < 0 {
		return nil, from
	}
	return from[:size:size], from[size:]
}

// tellRow notes the outcome of a record of a frame. It is written soon, and before any line that comes after.
func tellRow(seq, sentUs, offset, timestampMs int64, partition int32, code, fate int16) {
	atUs := nowUs()
	lock.Lock()
	defer lock.Unlock()
	if len(rows) == 0 {
		select {
		case wake <- true:
		default:
		}
	}
	rows = little.AppendUint64(rows, uint64(seq))
	rows = little.AppendUint64(rows, uint64(sentUs))
	rows = little.AppendUint64(rows, uint64(atUs))
	rows = little.AppendUint64(rows, uint64(offset))
	rows = little.AppendUint64(rows, uint64(timestampMs))
	rows = little.AppendUint32(rows, uint32(partition))
	rows = little.AppendUint16(rows, uint16(code))
	rows = little.AppendUint16(rows, uint16(fate))
	if len(rows) > frameBytesMax/2 {
		writeTold()
	}
}

// writeTold writes the rows that were told. Who calls it holds the lock, and flushes.
func writeTold() {
	if len(rows) == 0 {
		return
	}
	head := little.AppendUint32(nil, outcomesKind)
	head = little.AppendUint32(head, uint32(len(rows)/outcomeBytes))
	out.Write(little.AppendUint64(head, uint64(len(rows))))
	out.Write(rows)
	rows = rows[:0]
}

// writeOutcomes writes at once what is told now and then. Of many it lets some gather, because a frame costs the harness
// as much as some hundred rows.
func writeOutcomes() {
	last := time.Now()
	for range wake {
		lock.Lock()
		count := len(rows) / outcomeBytes
		writeTold()
		out.Flush()
		lock.Unlock()
		if time.Since(last) < time.Duration(count)*manyApart {
			time.Sleep(gathered)
		}
		last = time.Now()
	}
}
