// The lines of docs/reference/client-protocol.md: what is read, what is said, and the time.
package main

import (
	"bufio"
	"context"
	"encoding/json"
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
	Properties      map[string]string
	FailedCodes     []int16 `json:"failed_codes"`
	Topics          []string
	Partitions      []place
	Records         []struct {
		Seq        int64
		Key, Value []byte // encoding/json reads and writes bytes as base64
		Partition  *int32
		Headers    []struct {
			Key   string
			Value []byte
		}
	}
}

var (
	lock sync.Mutex
	out  = bufio.NewWriter(os.Stdout)
)

// nowUs asks the clock itself. Go's own time has another zero, and between two looks for their difference a busy host
// may stop this program for milliseconds: then all its times would be later than they are.
func nowUs() int64 {
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&now)), 0) // 1 is CLOCK_MONOTONIC
	return now.Nano() / 1000
}

func say(event string, more fields) {
	more["event"], more["at_us"] = event, nowUs()
	line, _ := json.Marshal(more)
	lock.Lock()
	defer lock.Unlock()
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

// serve reads until the end of standard input. carryOut returns what the answer has beside its id, nil if it has answered
// by itself, and for an error the name of a property that is wrong.
func serve(carryOut func(*command, context.Context) (string, fields, string, error)) {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
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
		event, answer, wrong, err := carryOut(in, bounded)
		cancel()
		if err != nil {
			event, answer = "error", fields{"reason": err.Error(), "code": codeOf(err)}
			if wrong != "" {
				answer["property"] = wrong
			}
		}
		if answer != nil {
			answer["id"] = in.ID
			say(event, answer)
		}
	}
}
