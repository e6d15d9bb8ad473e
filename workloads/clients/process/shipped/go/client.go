// A client of the harness over franz-go. It speaks docs/reference/client-protocol.md.
//
// One loop reads a command, carries it out and answers; what waits is done beside it. Outcomes of records come from the
// library's own goroutines.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	kafka       *kgo.Client // of a consumer only when it knows what to read: franz-go wants that at the start
	options     []kgo.Opt
	given       map[string]string // the properties of connect
	subscribed  []string          // topics of a group
	isAcked     bool
	failedCodes map[int16]bool
	polled      sync.Map       // place -> true
	open        sync.WaitGroup // records without an outcome: franz-go tells some after its Close has returned
)

func codeOf(err error) int16 {
	var known *kerr.Error
	if errors.As(err, &known) && known.Code > 0 {
		return known.Code
	}
	return -1
}

func produce(in *command) {
	each(in, func(given *record) {
		record := &kgo.Record{Topic: in.Topic, Key: given.Key, Value: given.Value, Partition: -1}
		if given.Partition != nil {
			record.Partition = *given.Partition
		}
		told := fields{"seq": given.Seq, "sent_us": nowUs()}
		open.Add(1)
		// Produce waits while the library's buffer is full: nothing is read meanwhile.
		kafka.Produce(context.Background(), record, func(done *kgo.Record, err error) {
			defer open.Done()
			event, code := "unknown", codeOf(err)
			if err == nil && isAcked {
				told["partition"], told["offset"] = done.Partition, done.Offset
				say("acknowledged", fields{"records": []fields{told}})
			} else if err == nil {
				say(event, fields{"records": []fields{told}, "code": 0})
			} else {
				if failedCodes[code] {
					event = "failed"
				}
				say(event, fields{"records": []fields{told}, "code": code, "reason": err.Error()})
			}
		})
	})
}

// inFrame is a record of a frame, and what its outcome needs. franz-go gives the record back, which is the first part of it.
type inFrame struct {
	kgo.Record
	seq, sentUs int64
}

func produceFrame(count int, record func(int) framed) {
	open.Add(count)
	made := make([]inFrame, count)
	var now time.Time
	for i := range made {
		if i%16 == 0 { // a look at the clock costs a tenth of a record
			now = time.Now()
		}
		given, one := record(i), &made[i]
		one.Topic, one.Partition, one.Key, one.Value = topics[given.Topic], given.Partition, given.Key, given.Value
		one.Timestamp, one.seq, one.sentUs = now, given.Seq, us(now)
		kafka.Produce(context.Background(), &one.Record, tellFrame)
	}
}

func tellFrame(done *kgo.Record, err error) {
	defer open.Done()
	one := (*inFrame)(unsafe.Pointer(done))
	switch {
	case err == nil && isAcked:
		tellRow(one.seq, one.sentUs, done.Offset, -1, done.Partition, 0, isAcknowledged)
	case err == nil:
		tellRow(one.seq, one.sentUs, -1, -1, -1, 0, isUnknown)
	case failedCodes[codeOf(err)]:
		tellRow(one.seq, one.sentUs, -1, -1, -1, codeOf(err), isFailed)
	default:
		tellRow(one.seq, one.sentUs, -1, -1, -1, codeOf(err), isUnknown)
	}
}

func poll(in *command, bounded context.Context) {
	kafka.AllowRebalance() // what the last poll gave is done with
	waiting := bounded
	if in.TimeoutMs == 0 {
		waiting = nil // It gives what is there. With a time that is over it gives nothing.
	}
	fetches, records := kafka.PollRecords(waiting, in.MaxRecords), []fields{}
	for _, failed := range fetches.Errors() {
		if bounded.Err() == nil {
			say("error", fields{"code": codeOf(failed.Err), "reason": failed.Err.Error()})
		}
	}
	fetches.EachRecord(func(record *kgo.Record) {
		polled.Store(place{Topic: record.Topic, Partition: record.Partition}, true)
		records = append(records, fields{
			"topic": record.Topic, "partition": record.Partition, "offset": record.Offset, "key": record.Key,
			"value": record.Value, "timestamp_ms": record.Timestamp.UnixMilli(),
		})
	})
	say("polled", fields{"id": in.ID, "records": records})
}

func grouped[V any](places []place, of func(int64) V) map[string]map[int32]V {
	found := map[string]map[int32]V{}
	for _, each := range places {
		if found[each.Topic] == nil {
			found[each.Topic] = map[int32]V{}
		}
		found[each.Topic][each.Partition] = of(each.Offset)
	}
	return found
}

func teller(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		told := []fields{}
		for topic, partitions := range topics {
			for _, partition := range partitions {
				told = append(told, fields{"topic": topic, "partition": partition})
			}
		}
		say(event, fields{"partitions": told})
	}
}

func epoch(offset int64) kgo.EpochOffset { return kgo.EpochOffset{Epoch: -1, Offset: offset} }

// wrongOne is the property that franz-go refuses when it sees all of them. Its errors name them in words of their own.
func wrongOne(err error, properties map[string]string) string {
	said := map[string]string{"nflight": inFlight, "batch bytes": "batch.size", "buffered": "buffer.memory",
		"autocommit interval": "auto.commit.interval.ms"}
	for words, name := range said {
		if _, given := properties[name]; given && err != nil && strings.Contains(err.Error(), words) {
			return name
		}
	}
	return ""
}

const inFlight = "max.in.flight.requests.per.connection"

// optionsOf returns the name of the property that is wrong, too.
func optionsOf(role string, properties map[string]string) ([]kgo.Opt, string, error) {
	own := map[string]map[string]setting{"producer": producing, "consumer": consuming}[role]
	found := []kgo.Opt{kgo.RecordPartitioner(orChosen{kgo.StickyKeyPartitioner(nil)}),
		kgo.MaxBufferedRecords(inFlightMax)} // its own bound is 10,000, which is 10 ms at a million a second
	if _, isMember := properties["group.id"]; isMember {
		found = append(found, kgo.OnPartitionsAssigned(teller("assigned")), kgo.OnPartitionsRevoked(teller("revoked")),
			kgo.OnPartitionsLost(teller("lost")), kgo.BlockRebalanceOnPoll())
	} else {
		delete(properties, "enable.auto.commit") // franz-go refuses it without a group
	}
	if properties["enable.idempotence"] != "false" && properties[inFlight] == "5" {
		delete(properties, inFlight) // with idempotence franz-go has 5 and takes no other number
	}
	for name, value := range properties {
		make, isKnown := own[name]
		if !isKnown {
			make, isKnown = common[name]
		}
		if !isKnown {
			return nil, name, fmt.Errorf("franz-go has nothing for it, or this program does not set it for a %s", role)
		}
		option, err := make(value)
		if err != nil {
			return nil, name, err
		}
		if option != nil {
			found = append(found, option)
		}
	}
	return found, "", nil
}

// connect returns the name of the property that is wrong.
func connect(in *command, bounded context.Context) (string, error) {
	kafka, isAcked, failedCodes = nil, in.Properties["acks"] != "0", map[int16]bool{}
	beFast(in.Topics)
	polled.Clear()
	for _, code := range in.FailedCodes {
		failedCodes[code] = true
	}
	var wrong string
	var err error
	if options, wrong, err = optionsOf(in.Role, in.Properties); err != nil {
		return wrong, err
	}
	given = in.Properties
	if in.Role == "consumer" {
		err = kgo.ValidateOpts(options...)
		return wrongOne(err, in.Properties), err
	}
	if kafka, err = kgo.NewClient(options...); err != nil {
		return wrongOne(err, in.Properties), err
	}
	return "", kafka.Ping(bounded)
}
