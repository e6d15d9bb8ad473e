// The commands, and the loop that reads them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

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
		if kafka == nil {
			kafka, err = kgo.NewClient(append(options, kgo.ConsumeTopics(in.Topics...))...)
			return err
		}
		kafka.PurgeTopicsFromConsuming(kafka.GetConsumeTopics()...)
		kafka.AddConsumeTopics(in.Topics...)
	case "assign":
		at := grouped(in.Partitions, func(offset int64) kgo.Offset { return kgo.NewOffset().At(offset) }) // -2, -1: as Kafka
		if kafka != nil {
			kafka.Close()
		}
		kafka, err = kgo.NewClient(append(options, kgo.ConsumePartitions(at))...)
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
			if !polled[place{Topic: each.Topic, Partition: each.Partition}] {
				return fmt.Errorf("SetOffsets of franz-go acts only on a partition of which something was polled")
			}
		}
		kafka.SetOffsets(grouped(in.Partitions, epoch))
	case "begin":
		return kafka.BeginTransaction()
	case "commit-transaction":
		return kafka.EndTransaction(bounded, kgo.TryCommit)
	case "abort-transaction":
		return kafka.EndTransaction(bounded, kgo.TryAbort)
	case "close":
		kafka.Flush(bounded)
		kafka.CloseAllowingRebalance() // what has no outcome gets ErrClientClosed, which is unknown
		open.Wait()
	default:
		return fmt.Errorf("no such command: %s", in.Do)
	}
	return nil
}

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

func main() {
	version := "?"
	if built, found := debug.ReadBuildInfo(); found {
		for _, each := range built.Deps {
			if strings.HasSuffix(each.Path, "twmb/franz-go") {
				version = strings.TrimPrefix(each.Version, "v")
			}
		}
	}
	say("ready", fields{"protocol": 1, "client": "franz-go", "version": version,
		"can":        []string{"produce", "partition", "assign", "subscribe", "seek", "pause", "commit", "transactions"},
		"properties": fields{"producer": names(producing), "consumer": names(consuming)},
		"lacks":      fields{"send-offsets": "franz-go commits what was polled, by its GroupTransactSession"}})
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
		wrong := ""
		switch in.Do {
		case "produce":
			produce(in)
		case "poll":
			poll(in, bounded)
		case "connect":
			wrong, err = connect(in, bounded)
		case "commit":
			err = commit(in, bounded)
		default:
			err = carryOut(in, bounded)
		}
		cancel()
		answer := fields{"id": in.ID}
		if err != nil {
			answer["reason"], answer["code"] = err.Error(), codeOf(err)
			if wrong != "" {
				answer["property"] = wrong
			}
			say("error", answer)
		} else if in.Do == "commit" {
			answer["partitions"] = in.Partitions
			say("committed", answer)
		} else if in.Do != "produce" && in.Do != "poll" {
			say("done", answer)
		}
	}
}
