// The consumer: partitions of its own, or those that a group gives. Records stay in sarama's channels until they are polled.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type source struct {
	messages <-chan *sarama.ConsumerMessage
	reader   sarama.PartitionConsumer // nil in a group
	ended    chan struct{}            // in a group: closed when there will be no messages any more
}

var (
	client  sarama.Client
	groupID string
	alone   sarama.Consumer
	group   sarama.ConsumerGroup
	leave   context.CancelFunc
	left_   chan struct{}
	isAuto  bool
	initial int64 // where to begin without an offset, or with one that is not there

	lock_   sync.Mutex // of what follows
	session sarama.ConsumerGroupSession
	sources = map[place]source{}
	closed  bool
	paused  = map[place]bool{}
	given   = map[place]int64{} // the offset after what was polled last
	failure error
)

func connectConsumer(servers []string, id string, config *sarama.Config) (err error) {
	sources, paused, given, alone, group, groupID = map[place]source{}, map[place]bool{}, map[place]int64{}, nil, nil, id
	closed = false
	initial = config.Consumer.Offsets.Initial
	isAuto = config.Consumer.Offsets.AutoCommit.Enable
	if client, err = sarama.NewClient(servers, config); err != nil || id == "" {
		return err
	}
	if group, err = sarama.NewConsumerGroupFromClient(id, client); err != nil {
		client.Close()
		client = nil
		return err
	}
	go func(from sarama.ConsumerGroup) {
		for err := range from.Errors() {
			fail(err)
		}
	}(group)
	return nil
}

func fail(err error) {
	lock_.Lock()
	failure = err
	lock_.Unlock()
	say("error", fields{"reason": err.Error(), "code": codeOf(err)})
}

func partition(each place) place { return place{Topic: each.Topic, Partition: each.Partition} }

func assign(places []place) (err error) {
	closeReaders()
	if alone == nil {
		if alone, err = sarama.NewConsumerFromClient(client); err != nil {
			return err
		}
	}
	for _, each := range places {
		if err := read(alone, each); err != nil {
			return err
		}
	}
	return nil
}

func read(by sarama.Consumer, each place) error {
	reader, err := by.ConsumePartition(each.Topic, each.Partition, each.Offset) // -2, -1: as Kafka
	if err != nil {
		return err
	}
	go func() {
		for err := range reader.Errors() {
			fail(err)
		}
	}()
	lock_.Lock()
	defer lock_.Unlock()
	if _, isRead := sources[partition(each)]; isRead || closed {
		reader.AsyncClose()
		return nil
	}
	sources[partition(each)] = source{reader.Messages(), reader, nil}
	return nil
}

// goOn is for a partition of which sarama gives no messages any more, because its offset is not in the log. Its user has
// to choose what to do: a member returns from ConsumeClaim, and the group begins anew; who reads alone begins where
// auto.offset.reset says, as soon as a broker lets it. The lock is held.
func goOn(at place, from source) {
	delete(sources, at)
	if from.reader == nil {
		close(from.ended)
		return
	}
	at.Offset = initial
	go func(by sarama.Consumer) {
		for !isDone(at) {
			err := read(by, at)
			if err == nil || errors.Is(err, sarama.ErrClosedClient) {
				return
			}
			fail(err)
			time.Sleep(100 * time.Millisecond)
		}
	}(alone)
}

// isDone says whether somebody reads this partition again, or nobody will.
func isDone(at place) bool {
	lock_.Lock()
	defer lock_.Unlock()
	_, isRead := sources[partition(at)]
	return isRead || closed
}

func closeReaders() {
	lock_.Lock()
	defer lock_.Unlock()
	for each, from := range sources {
		if from.reader != nil {
			from.reader.AsyncClose()
			go func() {
				for range from.messages {
				}
			}()
		}
		delete(sources, each)
	}
}

// member is what sarama calls from the goroutines of a session.
type member struct{}

func (member) Setup(began sarama.ConsumerGroupSession) error {
	lock_.Lock()
	session, given = began, map[place]int64{}
	lock_.Unlock()
	tell("assigned", began)
	return nil
}

func (member) Cleanup(over sarama.ConsumerGroupSession) error {
	lock_.Lock()
	session = nil
	lock_.Unlock()
	tell("revoked", over)
	return nil
}

func (member) ConsumeClaim(over sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	at := place{Topic: claim.Topic(), Partition: claim.Partition()}
	lock_.Lock()
	ended := make(chan struct{})
	sources[at] = source{claim.Messages(), nil, ended}
	lock_.Unlock()
	select {
	case <-over.Context().Done():
	case <-ended:
	}
	lock_.Lock()
	delete(sources, at)
	lock_.Unlock()
	return nil
}

func tell(event string, of sarama.ConsumerGroupSession) {
	told := []fields{}
	for topic, partitions := range of.Claims() {
		for _, each := range partitions {
			told = append(told, fields{"topic": topic, "partition": each})
		}
	}
	say(event, fields{"partitions": told, "generation": of.GenerationID()})
}

func subscribe(topics []string) error {
	if group == nil {
		return fmt.Errorf("without group.id sarama has no subscribe")
	}
	stopSession()
	background, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	leave, left_ = cancel, over
	go func(from sarama.ConsumerGroup) {
		defer close(over)
		for background.Err() == nil {
			// It returns at each rebalance, and with an error when brokers are away: its documentation asks for a loop.
			err := from.Consume(background, topics, member{})
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if err != nil && background.Err() == nil {
				fail(err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	}(group)
	return nil
}

func stopSession() {
	if leave != nil {
		leave()
		<-left_
		leave = nil
	}
}

func poll(in *command, bounded context.Context) []fields {
	markGiven()
	records := []fields{}
	for {
		records = append(records, takeUpTo(in.MaxRecords-len(records))...)
		if len(records) > 0 || bounded.Err() != nil || isClosed() {
			return records
		}
		time.Sleep(tick)
	}
}

func isClosed() bool {
	lock_.Lock()
	defer lock_.Unlock()
	return closed
}

// markGiven lets sarama commit what polls before this one gave.
func markGiven() {
	lock_.Lock()
	defer lock_.Unlock()
	if session != nil && isAuto {
		for at, next := range given {
			session.MarkOffset(at.Topic, at.Partition, next, "")
		}
	}
}

// takeUpTo takes what is there, in turn from each partition.
func takeUpTo(count int) []fields {
	lock_.Lock()
	defer lock_.Unlock()
	records := []fields{}
	for took := true; took && len(records) < count; {
		took = false
		for at, from := range sources {
			if paused[at] || len(records) == count {
				continue
			}
			select {
			case message, isOpen := <-from.messages:
				if !isOpen {
					goOn(at, from)
					continue
				}
				took = true
				given[at] = message.Offset + 1
				records = append(records, shown(message))
			default:
			}
		}
	}
	return records
}

func shown(message *sarama.ConsumerMessage) fields {
	headers := []fields{}
	for _, each := range message.Headers {
		headers = append(headers, fields{"key": string(each.Key), "value": each.Value})
	}
	return fields{
		"topic": message.Topic, "partition": message.Partition, "offset": message.Offset, "key": message.Key,
		"value": message.Value, "timestamp_ms": message.Timestamp.UnixMilli(), "headers": headers,
	}
}

func setPaused(places []place, is bool) {
	lock_.Lock()
	defer lock_.Unlock()
	for _, each := range places {
		at := partition(each)
		paused[at] = is
		if from := sources[at]; from.reader != nil && is {
			from.reader.Pause()
		} else if from.reader != nil {
			from.reader.Resume()
		} else if group != nil && is {
			group.Pause(map[string][]int32{at.Topic: {at.Partition}})
		} else if group != nil {
			group.Resume(map[string][]int32{at.Topic: {at.Partition}})
		}
	}
}

// commit asks the coordinator afterwards: sarama's Commit returns nothing, and tells errors later.
func commit(places []place) error {
	lock_.Lock()
	in := session
	failure = nil
	lock_.Unlock()
	if in == nil {
		return fmt.Errorf("no session: the group rebalances")
	}
	for _, each := range places {
		in.MarkOffset(each.Topic, each.Partition, each.Offset, "")  // acts forward
		in.ResetOffset(each.Topic, each.Partition, each.Offset, "") // acts backward
	}
	in.Commit()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return err
	}
	for _, each := range places {
		found, err := admin.ListConsumerGroupOffsets(groupID, map[string][]int32{each.Topic: {each.Partition}})
		if err != nil {
			return err
		}
		if block := found.GetBlock(each.Topic, each.Partition); block == nil || block.Offset != each.Offset {
			lock_.Lock()
			defer lock_.Unlock()
			return errors.Join(fmt.Errorf("%s-%d is not committed", each.Topic, each.Partition), failure)
		}
	}
	return nil
}

func sendOffsets(places []place) error {
	offsets := map[string][]*sarama.PartitionOffsetMetadata{}
	for _, each := range places {
		one := &sarama.PartitionOffsetMetadata{Partition: each.Partition, Offset: each.Offset, LeaderEpoch: -1}
		offsets[each.Topic] = append(offsets[each.Topic], one)
	}
	return producer.AddOffsetsToTxn(offsets, groupID)
}

func closeConsumer(limit time.Duration) {
	if client == nil {
		return
	}
	markGiven()
	lock_.Lock()
	closed = true // a poll that waits ends
	lock_.Unlock()
	done := make(chan struct{})
	go func(group sarama.ConsumerGroup, alone sarama.Consumer, client sarama.Client) {
		stopSession()
		closeReaders()
		if group != nil {
			group.Close()
		}
		if alone != nil {
			alone.Close()
		}
		client.Close()
		close(done)
	}(group, alone, client)
	select {
	case <-done:
	case <-time.After(limit):
	}
	client, group, alone = nil, nil, nil
}
