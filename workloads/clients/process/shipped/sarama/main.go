// A client of the harness over sarama. It speaks docs/reference/client-protocol.md.
//
// One loop reads a command, carries it out and answers; what waits is done beside it. Outcomes of records and claims of partitions come from the
// library's own goroutines.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

func codeOf(err error) int16 {
	var known sarama.KError
	if errors.As(err, &known) && known > 0 {
		return int16(known)
	}
	return -1
}

// within bounds a call that takes no time limit. What it still does afterwards, it does by itself.
func within(bounded context.Context, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-bounded.Done():
		return fmt.Errorf("not done in the time of the command")
	}
}

// left is what is left of the time of a command, less what an answer takes.
func left(bounded context.Context) time.Duration {
	until, _ := bounded.Deadline()
	return time.Until(until) - 200*time.Millisecond
}

const retry = 200 * time.Millisecond

// effective are the settings in force that connect may not have said.
var effective fields

func connect(in *command, bounded context.Context) (string, error) {
	config, wrong, err := configOf(in)
	if err != nil {
		return wrong, err
	}
	effective = fields{}
	if in.Role == "consumer" {
		effective["request.timeout.ms"] = strconv.FormatInt(config.Net.ReadTimeout.Milliseconds(), 10)
	}
	if in.Role != "consumer" {
		effective[inFlight] = strconv.Itoa(config.Net.MaxOpenRequests)
		effective["retries"] = strconv.Itoa(config.Producer.Retry.Max)
	}
	servers := serversOf(in)
	return "", within(bounded, func() (err error) {
		// A sarama client is not made while brokers answer by errors; then an application tries again.
		for err = try(in, servers, config); err != nil && left(bounded) > retry; err = try(in, servers, config) {
			time.Sleep(retry)
		}
		return err
	})
}

func try(in *command, servers []string, config *sarama.Config) error {
	if in.Role != "producer" && client == nil {
		if err := connectConsumer(servers, in.Properties["group.id"], config); err != nil {
			return err
		}
	}
	if in.Role != "consumer" {
		return connectProducer(in, servers, config)
	}
	return nil
}

func handle(in *command, bounded context.Context) (event string, answer fields, wrong string, err error) {
	switch in.Do {
	case "produce":
		produce(in)
		return "", nil, "", nil
	case "poll":
		return "polled", fields{"records": poll(in, bounded)}, "", nil
	case "connect":
		wrong, err = connect(in, bounded)
		return "done", fields{"effective": effective}, wrong, err
	case "flush":
		err = flush(left(bounded))
	case "subscribe":
		err = subscribe(in.Topics)
	case "assign":
		err = within(bounded, func() error { return assign(in.Partitions) })
	case "pause", "resume":
		setPaused(in.Partitions, in.Do == "pause")
	case "commit":
		return "committed", fields{"partitions": in.Partitions}, "", within(bounded, func() error { return commit(in.Partitions) })
	case "begin":
		err = producer.BeginTxn()
	case "send-offsets":
		err = within(bounded, func() error { return sendOffsets(in.Partitions) })
	case "commit-transaction":
		err = commitTransaction(bounded)
	case "abort-transaction":
		err = within(bounded, producer.AbortTxn)
	case "close":
		closeConsumer(left(bounded))
		closeProducer(left(bounded))
	default:
		err = fmt.Errorf("no such command: %s", in.Do)
	}
	return "done", fields{}, wrong, err
}

func main() {
	say("ready", fields{"protocol": 1, "client": "sarama", "version": versionOf("IBM/sarama"),
		"can": []string{"produce", "partition", "headers", "callers", "assign", "subscribe", "pause", "commit",
			"transactions", "send-offsets", "overlap", "cancel", "frames"},
		"in_flight_max": inFlightMax,
		"properties":    fields{"producer": names(common, producing), "consumer": names(common, consuming)},
		"lacks":         fields{"seek": "sarama has no seek", "share": "sarama has no share groups"}})
	serve(handle, produceFrame)
}
