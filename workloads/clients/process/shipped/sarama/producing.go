// The producer: records in, one outcome each.
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const tick = 2 * time.Millisecond

var (
	producer    sarama.AsyncProducer
	isAcked     bool
	failedCodes map[int16]bool
	openLock    sync.Mutex
	open        = map[int64]int64{} // records without an outcome: when they were sent
	ended       chan struct{}       // sarama tells nothing more
)

// partitioner is sarama's by the hash of the key, unless the record says where it belongs.
type partitioner struct{ sarama.Partitioner }

func newPartitioner(topic string) sarama.Partitioner {
	return partitioner{sarama.NewHashPartitioner(topic)}
}

type told struct {
	seq       int64
	partition *int32
	isFramed  bool
}

func (p partitioner) Partition(message *sarama.ProducerMessage, count int32) (int32, error) {
	if chosen := message.Metadata.(told).partition; chosen != nil {
		return *chosen, nil
	}
	return p.Partitioner.Partition(message, count)
}

func (p partitioner) MessageRequiresConsistency(message *sarama.ProducerMessage) bool {
	return message.Key != nil || message.Metadata.(told).partition != nil
}

func connectProducer(in *command, servers []string, config *sarama.Config) (err error) {
	isAcked, failedCodes = in.Properties["acks"] != "0", map[int16]bool{}
	beFast(in.Topics)
	for _, code := range in.FailedCodes {
		failedCodes[code] = true
	}
	if producer, err = sarama.NewAsyncProducer(servers, config); err == nil {
		ended = make(chan struct{})
		go listen(producer, ended)
	}
	return err
}

func produce(in *command) {
	each(in, func(given *record) {
		message := messageOf(in.Topic, given.Key, given.Value, told{given.Seq, given.Partition, false})
		for _, header := range given.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Key), Value: header.Value})
		}
		send(message, given.Seq)
	})
}

func produceFrame(count int, record func(int) framed) {
	for i := range count {
		given := record(i)
		of := told{given.Seq, nil, true}
		if given.Partition >= 0 {
			of.partition = &given.Partition
		}
		send(messageOf(topics[given.Topic], given.Key, given.Value, of), given.Seq)
	}
}

func messageOf(topic string, key, value []byte, of told) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{Topic: topic, Metadata: of}
	if key != nil {
		message.Key = sarama.ByteEncoder(key)
	}
	if value != nil {
		message.Value = sarama.ByteEncoder(value)
	}
	return message
}

func send(message *sarama.ProducerMessage, seq int64) {
	openLock.Lock()
	open[seq] = nowUs()
	openLock.Unlock()
	producer.Input() <- message // waits while sarama takes no more: nothing is read meanwhile
}

func listen(from sarama.AsyncProducer, ended chan struct{}) {
	successes, failures := from.Successes(), from.Errors()
	for successes != nil || failures != nil {
		select {
		case message, isOpen := <-successes:
			if !isOpen {
				successes = nil
			} else if isAcked {
				outcome(message, "acknowledged", 0, "")
			} else {
				outcome(message, "unknown", 0, "")
			}
		case failed, isOpen := <-failures:
			if !isOpen {
				failures = nil
				continue
			}
			event, code := "unknown", codeOf(failed.Err)
			if failedCodes[code] {
				event = "failed"
			}
			outcome(failed.Msg, event, code, failed.Err.Error())
		}
	}
	close(ended)
}

// outcome counts the first one of a record.
func outcome(message *sarama.ProducerMessage, event string, code int16, reason string) {
	of := message.Metadata.(told)
	openLock.Lock()
	defer openLock.Unlock()
	sentUs, isOpen := open[of.seq]
	if !isOpen {
		return
	}
	delete(open, of.seq)
	record := fields{"seq": of.seq, "sent_us": sentUs}
	switch {
	case of.isFramed && event == "acknowledged":
		tellRow(of.seq, sentUs, message.Offset, -1, message.Partition, 0, isAcknowledged)
	case of.isFramed && event == "failed":
		tellRow(of.seq, sentUs, -1, -1, -1, code, isFailed)
	case of.isFramed:
		tellRow(of.seq, sentUs, -1, -1, -1, code, isUnknown)
	case event == "acknowledged":
		record["partition"], record["offset"] = message.Partition, message.Offset
		say(event, fields{"records": []fields{record}})
	default:
		say(event, fields{"records": []fields{record}, "code": code, "reason": reason})
	}
}

func openCount() int {
	openLock.Lock()
	defer openLock.Unlock()
	return len(open)
}

// flush waits: sarama sends by itself, and has no call for it.
func flush(limit time.Duration) error {
	for deadline := time.Now().Add(limit); openCount() > 0; time.Sleep(tick) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d records have no outcome yet", openCount())
		}
	}
	return nil
}

// commitTransaction wants an abort only if sarama was in error before: then it asks nobody to commit. After another error
// there may be a commit.
func commitTransaction(bounded context.Context) error {
	before := producer.TxnStatus()
	err := within(bounded, producer.CommitTxn)
	if err != nil && before&sarama.ProducerTxnFlagAbortableError != 0 {
		return wish{err, "abort"}
	}
	return err
}

func closeProducer(limit time.Duration) {
	if producer == nil {
		return
	}
	producer.AsyncClose()
	select {
	case <-ended:
	case <-time.After(limit):
	}
	openLock.Lock()
	defer openLock.Unlock()
	for seq, sentUs := range open {
		record := fields{"seq": seq, "sent_us": sentUs}
		say("unknown", fields{"records": []fields{record}, "code": 0, "reason": "no outcome before the close was over"})
		delete(open, seq)
	}
	producer = nil
}
