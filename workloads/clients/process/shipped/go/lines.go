// The lines of docs/reference/client-protocol.md: what is read, what is said, and the time.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

type fields = map[string]any

type place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

type command struct {
	Do, Role, Topic string
	ID              int64
	TimeoutMs       int64 `json:"timeout_ms"`
	MaxRecords      int   `json:"max_records"`
	Callers         int
	Command         int64 // of cancel: which one
	Properties      map[string]string
	FailedCodes     []int16 `json:"failed_codes"`
	Topics          []string
	Partitions      []place
	Records         []record
}

type record struct {
	Seq        int64
	Key, Value []byte // encoding/json reads and writes bytes as base64
	Partition  *int32
	Headers    []struct {
		Key   string
		Value []byte
	}
}

// wish is an error in a transaction, and what the library wants then: abort or close.
type wish struct {
	error
	next string
}

func (w wish) Unwrap() error { return w.error }

var (
	lock sync.Mutex
	out  = bufio.NewWriter(os.Stdout)
)

var began = time.Now()

// zeroUs is the time of CLOCK_MONOTONIC, which has another zero than Go's, when the program began. A busy host may stop
// this program for milliseconds between two looks, so both are looked at until no time passes between them.
var zeroUs = func() int64 {
	found, tightest := int64(0), time.Hour
	for range 100 {
		before := time.Since(began)
		var now syscall.Timespec
		syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&now)), 0) // 1 is CLOCK_MONOTONIC
		after := time.Since(began)
		if after-before < tightest {
			tightest, found = after-before, (now.Nano()-int64(before+after)/2)/1000
		}
	}
	return found
}()

func us(at time.Time) int64 { return zeroUs + at.Sub(began).Microseconds() }

func nowUs() int64 { return zeroUs + time.Since(began).Microseconds() }

func say(event string, more fields) {
	more["event"], more["at_us"] = event, nowUs()
	line, _ := json.Marshal(more)
	lock.Lock()
	defer lock.Unlock()
	writeTold()
	out.Write(append(line, '\n'))
	out.Flush()
}

// versionOf is that of the library in this program; of its name the end is enough.
func versionOf(module string) string {
	if built, found := debug.ReadBuildInfo(); found {
		for _, each := range built.Deps {
			if strings.HasSuffix(each.Path, module) {
				return strings.TrimPrefix(each.Version, "v")
			}
		}
	}
	return "?"
}

// each gives every record of a produce to `give`: by one caller, or by several at once, each its share in order. It
// returns when all are given.
func each(in *command, give func(*record)) {
	var givers sync.WaitGroup
	callers := max(1, in.Callers)
	for caller := 1; caller < callers; caller++ {
		givers.Add(1)
		go func() {
			defer givers.Done()
			share(in, caller, callers, give)
		}()
	}
	share(in, 0, callers, give)
	givers.Wait()
}

func share(in *command, caller, callers int, give func(*record)) {
	for i := caller; i < len(in.Records); i += callers {
		give(&in.Records[i])
	}
}

// What waits is done beside the loop, so that other commands are heard meanwhile, and cancel ends it.
var waits = map[string]bool{"poll": true, "commit": true, "flush": true}

type waiting struct {
	cancel context.CancelFunc
	over   chan struct{}
}

// serve reads until the end of standard input. carryOut returns what the answer has beside its id, nil if it has answered
// by itself, and for an error the name of a property that is wrong. A frame of records goes to `produceFrame`.
func serve(carryOut func(*command, context.Context) (string, fields, string, error), produceFrame func(int, func(int) framed)) {
	go writeOutcomes()
	lines, waitings := bufio.NewReaderSize(os.Stdin, 1<<20), sync.Map{}
	for {
		if first, err := lines.Peek(1); err == nil && first[0] == recordsKind {
			readFrame(lines, produceFrame)
			continue
		}
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		in := &command{}
		if err := json.Unmarshal(line, in); err != nil {
			fmt.Fprintln(os.Stderr, "a line that cannot be read:", err)
			os.Exit(1)
		}
		bounded, cancel := context.WithTimeout(context.Background(), time.Duration(in.TimeoutMs)*time.Millisecond)
		switch {
		case in.Do == "cancel":
			if found, is := waitings.Load(in.Command); is {
				found.(waiting).cancel()
				<-found.(waiting).over
			}
			say("done", fields{"id": in.ID})
		case waits[in.Do]:
			over := make(chan struct{})
			waitings.Store(in.ID, waiting{cancel, over})
			go func() {
				answer(in, bounded, carryOut)
				waitings.Delete(in.ID)
				close(over)
				cancel()
			}()
			continue
		default:
			answer(in, bounded, carryOut)
		}
		cancel()
	}
}

func answer(in *command, bounded context.Context, carryOut func(*command, context.Context) (string, fields, string, error)) {
	event, told, wrong, err := carryOut(in, bounded)
	if err != nil {
		event, told = "error", fields{"reason": err.Error(), "code": codeOf(err)}
		if wrong != "" {
			told["property"] = wrong
		}
		var wanted wish
		if errors.As(err, &wanted) {
			told["next"] = wanted.next
		}
	}
	if told != nil {
		told["id"] = in.ID
		say(event, told)
	}
}
