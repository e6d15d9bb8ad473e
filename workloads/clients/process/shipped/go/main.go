// The commands, and the loop that reads them.
package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// carryOut does what is answered by done, or by an error.
func carryOut(in *command, bounded context.Context) error {
	var err error
	switch in.Do {
	case "flush":
		return kafka.Flush(bounded)
	case "subscribe":
		before := subscribed
		subscribed = in.Topics
		if kafka == nil {
			kafka, err = kgo.NewClient(append(options, kgo.ConsumeTopics(subscribed...))...)
			return err
		}
		kafka.PurgeTopicsFromConsuming(before...)
		kafka.AddConsumeTopics(subscribed...)
	case "assign":
		at := grouped(in.Partitions, func(offset int64) kgo.Offset { return kgo.NewOffset().At(offset) }) // -2, -1: as Kafka
		if kafka != nil {
			kafka.Close()
		}
		// franz-go takes no partitions of one's choice as a member of a group.
		delete(given, "group.id")
		if options, _, err = optionsOf("consumer", given); err == nil {
			kafka, err = kgo.NewClient(append(options, kgo.ConsumePartitions(at))...)
		}
		return err
	case "pause":
		for _, each := range in.Partitions {
			kafka.PauseFetchPartitions(map[string][]int32{each.Topic: {each.Partition}})
		}
	case "resume":
		for _, each := range in.Partitions {
			kafka.ResumeFetchPartitions(map[string][]int32{each.Topic: {each.Partition}})
		}
	case "seek":
		for _, each := range in.Partitions {
			if _, is := polled.Load(place{Topic: each.Topic, Partition: each.Partition}); !is {
				return fmt.Errorf("SetOffsets of franz-go acts only on a partition of which something was polled")
			}
		}
		kafka.SetOffsets(grouped(in.Partitions, epoch))
	case "begin":
		return kafka.BeginTransaction()
	case "commit-transaction":
		// EndTransaction of franz-go does not wait for records: they would come after the end, or in the next transaction.
		if err = kafka.Flush(bounded); err != nil {
			return err
		}
		err = kafka.EndTransaction(bounded, kgo.TryCommit)
		if notCommitted[codeOf(err)] {
			return wish{err, "abort"}
		}
		return err
	case "abort-transaction":
		if err = kafka.AbortBufferedRecords(bounded); err != nil {
			return err
		}
		return kafka.EndTransaction(bounded, kgo.TryAbort)
	case "close":
		if kafka == nil { // a consumer that has never known what to read
			return nil
		}
		kafka.Flush(bounded)
		kafka.CloseAllowingRebalance() // what has no outcome gets ErrClientClosed, which is unknown
		open.Wait()
	default:
		return fmt.Errorf("no such command: %s", in.Do)
	}
	return nil
}

// notCommitted are the errors of EndTransaction after which nothing is committed, and franz-go wants an abort. After any
// other one it may be.
var notCommitted = map[int16]bool{kerr.OperationNotAttempted.Code: true, 120: true} // 120: TRANSACTION_ABORTABLE

func commit(in *command, bounded context.Context) (failed error) {
	kafka.CommitOffsetsSync(bounded, grouped(in.Partitions, epoch),
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			failed = err
			for i := 0; failed == nil && i < len(answer.Topics); i++ {
				for _, each := range answer.Topics[i].Partitions {
					failed = kerr.ErrorForCode(each.ErrorCode)
				}
			}
		})
	return failed
}

// needsClient: a consumer has none before it is told what to read, nor if that failed.
var needsClient = map[string]bool{"poll": true, "commit": true, "pause": true, "resume": true, "seek": true}

func handle(in *command, bounded context.Context) (event string, answer fields, wrong string, err error) {
	if kafka == nil && needsClient[in.Do] {
		return "done", fields{}, "", fmt.Errorf("%s: nothing is read", in.Do)
	}
	switch in.Do {
	case "produce":
		produce(in)
	case "poll":
		poll(in, bounded)
	case "connect":
		wrong, err = connect(in, bounded)
		return "done", fields{}, wrong, err
	case "commit":
		return "committed", fields{"partitions": in.Partitions}, "", commit(in, bounded)
	default:
		return "done", fields{}, "", carryOut(in, bounded)
	}
	return "", nil, "", nil
}

func main() {
	say("ready", fields{"protocol": 1, "client": "franz-go", "version": versionOf("twmb/franz-go"),
		"can": []string{"produce", "partition", "callers", "assign", "subscribe", "seek", "pause", "commit", "transactions",
			"overlap", "cancel", "frames"},
		"in_flight_max": inFlightMax,
		"properties":    fields{"producer": names(producing), "consumer": names(consuming)},
		"lacks":         fields{"send-offsets": "franz-go commits what was polled, by its GroupTransactSession"}})
	serve(handle, produceFrame)
}
