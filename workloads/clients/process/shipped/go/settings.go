// Kafka's properties as options of franz-go.
package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type setting func(value string) (kgo.Opt, error)

var common = map[string]setting{
	"bootstrap.servers": text(func(value string) kgo.Opt { return kgo.SeedBrokers(strings.Split(value, ",")...) }),
	"client.id":         text(func(value string) kgo.Opt { return kgo.ClientID(value) }),
}

var producing = map[string]setting{
	"acks": oneOf(map[string]kgo.Opt{
		"0": kgo.RequiredAcks(kgo.NoAck()), "1": kgo.RequiredAcks(kgo.LeaderAck()),
		"all": kgo.RequiredAcks(kgo.AllISRAcks()), "-1": kgo.RequiredAcks(kgo.AllISRAcks()),
	}),
	// franz-go knows the most that a batch may hold, and refuses a record that is larger.
	"batch.size": number(func(n int) kgo.Opt { return kgo.ProducerBatchMaxBytes(int32(n)) }),
	"compression.type": oneOf(map[string]kgo.Opt{
		"none": kgo.ProducerBatchCompression(kgo.NoCompression()), "gzip": kgo.ProducerBatchCompression(kgo.GzipCompression()),
		"snappy": kgo.ProducerBatchCompression(kgo.SnappyCompression()), "lz4": kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		"zstd": kgo.ProducerBatchCompression(kgo.ZstdCompression()),
	}),
	"buffer.memory":           number(func(n int) kgo.Opt { return kgo.MaxBufferedBytes(n) }),
	"connections.max.idle.ms": milliseconds(kgo.ConnIdleTimeout),
	"delivery.timeout.ms":     milliseconds(kgo.RecordDeliveryTimeout),
	"enable.idempotence":      oneOf(map[string]kgo.Opt{"true": nil, "false": kgo.DisableIdempotentWrite()}),
	"linger.ms":               milliseconds(kgo.ProducerLinger),
	"max.in.flight.requests.per.connection": number(func(n int) kgo.Opt {
		return kgo.MaxProduceRequestsInflightPerBroker(n)
	}),
	"request.timeout.ms":     milliseconds(kgo.ProduceRequestTimeout),
	"retries":                number(func(n int) kgo.Opt { return kgo.RecordRetries(n) }),
	"transaction.timeout.ms": milliseconds(kgo.TransactionTimeout),
	"transactional.id":       text(func(value string) kgo.Opt { return kgo.TransactionalID(value) }),
}

var consuming = map[string]setting{
	"auto.commit.interval.ms": milliseconds(kgo.AutoCommitInterval),
	"auto.offset.reset": oneOf(map[string]kgo.Opt{
		"earliest": kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), "latest": kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
	}),
	"client.rack":             text(func(value string) kgo.Opt { return kgo.Rack(value) }),
	"connections.max.idle.ms": milliseconds(kgo.ConnIdleTimeout),
	"enable.auto.commit":      oneOf(map[string]kgo.Opt{"true": nil, "false": kgo.DisableAutoCommit()}),
	"fetch.max.bytes":         number(func(n int) kgo.Opt { return kgo.FetchMaxBytes(int32(n)) }),
	"fetch.max.wait.ms":       milliseconds(kgo.FetchMaxWait),
	"fetch.min.bytes":         number(func(n int) kgo.Opt { return kgo.FetchMinBytes(int32(n)) }),
	"group.id":                text(func(value string) kgo.Opt { return kgo.ConsumerGroup(value) }),
	"group.instance.id":       text(func(value string) kgo.Opt { return kgo.InstanceID(value) }),
	"heartbeat.interval.ms":   milliseconds(kgo.HeartbeatInterval),
	"isolation.level": oneOf(map[string]kgo.Opt{
		"read_committed": kgo.FetchIsolationLevel(kgo.ReadCommitted()), "read_uncommitted": kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
	}),
	"max.partition.fetch.bytes": number(func(n int) kgo.Opt { return kgo.FetchMaxPartitionBytes(int32(n)) }),
	"partition.assignment.strategy": oneOf(map[string]kgo.Opt{
		"range": kgo.Balancers(kgo.RangeBalancer()), "roundrobin": kgo.Balancers(kgo.RoundRobinBalancer()),
		"sticky": kgo.Balancers(kgo.StickyBalancer()), "cooperative-sticky": kgo.Balancers(kgo.CooperativeStickyBalancer()),
	}),
	"session.timeout.ms": milliseconds(kgo.SessionTimeout),
}

func names(own map[string]setting) []string {
	found := []string{}
	for _, known := range []map[string]setting{common, own} {
		for name := range known {
			found = append(found, name)
		}
	}
	return found
}

func text(option func(string) kgo.Opt) setting {
	return func(value string) (kgo.Opt, error) { return option(value), nil }
}

func number(option func(int) kgo.Opt) setting {
	return func(value string) (kgo.Opt, error) {
		n, err := strconv.Atoi(value)
		return option(n), err
	}
}

func milliseconds[O kgo.Opt](option func(time.Duration) O) setting {
	return number(func(n int) kgo.Opt { return option(time.Duration(n) * time.Millisecond) })
}

// A nil option is franz-go's own default.
func oneOf(known map[string]kgo.Opt) setting {
	return func(value string) (kgo.Opt, error) {
		if option, found := known[value]; found {
			return option, nil
		}
		return nil, fmt.Errorf("%q is not one of its values", value)
	}
}

// orChosen lets a record choose its partition; without one (-1) the partitioner does.
type orChosen struct{ kgo.Partitioner }

func (o orChosen) ForTopic(topic string) kgo.TopicPartitioner {
	return orChosenTopic{o.Partitioner.ForTopic(topic)}
}

type orChosenTopic struct{ kgo.TopicPartitioner }

func (o orChosenTopic) RequiresConsistency(record *kgo.Record) bool {
	return record.Partition >= 0 || o.TopicPartitioner.RequiresConsistency(record)
}

func (o orChosenTopic) Partition(record *kgo.Record, count int) int {
	if record.Partition >= 0 {
		return int(record.Partition)
	}
	return o.TopicPartitioner.Partition(record, count)
}
