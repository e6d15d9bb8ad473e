// Kafka's properties as fields of sarama's configuration.
package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

type setting func(config *sarama.Config, value string) error

const inFlight = "max.in.flight.requests.per.connection"

// sarama knows no batch.size: a batch is what has gathered while others were under way, or within linger.ms.
var common = map[string]setting{
	"bootstrap.servers":   func(*sarama.Config, string) error { return nil },
	"client.id":           text(func(c *sarama.Config) *string { return &c.ClientID }),
	"metadata.max.age.ms": milliseconds(func(c *sarama.Config) *time.Duration { return &c.Metadata.RefreshFrequency }),
	"retry.backoff.ms": func(c *sarama.Config, value string) error {
		backoff, err := duration(value)
		c.Metadata.Retry.Backoff, c.Producer.Retry.Backoff, c.Consumer.Retry.Backoff = backoff, backoff, backoff
		return err
	},
	"request.timeout.ms": func(c *sarama.Config, value string) error {
		timeout, err := duration(value)
		c.Net.ReadTimeout, c.Net.WriteTimeout, c.Producer.Timeout = timeout, timeout, timeout
		return err
	},
}

var producing = map[string]setting{
	"acks": oneOf(func(c *sarama.Config) *sarama.RequiredAcks { return &c.Producer.RequiredAcks }, map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll, "-1": sarama.WaitForAll,
	}),
	"compression.type": oneOf(func(c *sarama.Config) *sarama.CompressionCodec { return &c.Producer.Compression }, map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}),
	"enable.idempotence":     flag(func(c *sarama.Config) *bool { return &c.Producer.Idempotent }),
	"linger.ms":              milliseconds(func(c *sarama.Config) *time.Duration { return &c.Producer.Flush.Frequency }),
	inFlight:                 number(func(c *sarama.Config) *int { return &c.Net.MaxOpenRequests }),
	"max.request.size":       number(func(c *sarama.Config) *int { return &c.Producer.MaxMessageBytes }),
	"retries":                number(func(c *sarama.Config) *int { return &c.Producer.Retry.Max }),
	"transaction.timeout.ms": milliseconds(func(c *sarama.Config) *time.Duration { return &c.Producer.Transaction.Timeout }),
	"transactional.id":       text(func(c *sarama.Config) *string { return &c.Producer.Transaction.ID }),
}

var consuming = map[string]setting{
	"auto.commit.interval.ms": milliseconds(func(c *sarama.Config) *time.Duration { return &c.Consumer.Offsets.AutoCommit.Interval }),
	"auto.offset.reset": oneOf(func(c *sarama.Config) *int64 { return &c.Consumer.Offsets.Initial }, map[string]int64{
		"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest,
	}),
	"enable.auto.commit":        flag(func(c *sarama.Config) *bool { return &c.Consumer.Offsets.AutoCommit.Enable }),
	"fetch.max.wait.ms":         milliseconds(func(c *sarama.Config) *time.Duration { return &c.Consumer.MaxWaitTime }),
	"fetch.min.bytes":           bytes(func(c *sarama.Config) *int32 { return &c.Consumer.Fetch.Min }),
	"group.id":                  func(*sarama.Config, string) error { return nil },
	"group.instance.id":         text(func(c *sarama.Config) *string { return &c.Consumer.Group.InstanceId }),
	"heartbeat.interval.ms":     milliseconds(func(c *sarama.Config) *time.Duration { return &c.Consumer.Group.Heartbeat.Interval }),
	"max.partition.fetch.bytes": bytes(func(c *sarama.Config) *int32 { return &c.Consumer.Fetch.Default }),
	"isolation.level": oneOf(func(c *sarama.Config) *sarama.IsolationLevel { return &c.Consumer.IsolationLevel }, map[string]sarama.IsolationLevel{
		"read_committed": sarama.ReadCommitted, "read_uncommitted": sarama.ReadUncommitted,
	}),
	"session.timeout.ms": milliseconds(func(c *sarama.Config) *time.Duration { return &c.Consumer.Group.Session.Timeout }),
}

func serversOf(in *command) []string { return strings.Split(in.Properties["bootstrap.servers"], ",") }

// configOf returns the name of the property that is wrong.
const joinMore = 5 * time.Second // as the Java client has it

func configOf(in *command) (*sarama.Config, string, error) {
	config := sarama.NewConfig()
	config.Producer.Return.Successes, config.Producer.Return.Errors, config.Consumer.Return.Errors = true, true, true
	config.Producer.Partitioner = newPartitioner
	if _, isStatic := in.Properties["group.instance.id"]; isStatic {
		config.Version = sarama.V2_8_0_0
	}
	sides := map[string][]map[string]setting{
		"producer": {common, producing}, "consumer": {common, consuming}, "copier": {common, consuming, producing},
	}[in.Role]
	for name, value := range in.Properties {
		var set setting
		for _, side := range sides {
			if found, known := side[name]; known {
				set = found
			}
		}
		if set == nil {
			return nil, name, fmt.Errorf("sarama has nothing for it, or this program does not set it for a %s", in.Role)
		}
		if err := set(config, value); err != nil {
			return nil, name, err
		}
	}
	// Kafka gives a JoinGroup more time than a request, because its answer waits for all members, and so for the session
	// of one that is gone. sarama has one time for all that it reads: with less, each join ends and begins anew.
	if join := config.Consumer.Group.Session.Timeout + joinMore; in.Role == "consumer" && config.Net.ReadTimeout < join {
		config.Net.ReadTimeout = join
	}
	if config.Producer.Transaction.ID != "" {
		config.Producer.Idempotent, config.Producer.RequiredAcks = true, sarama.WaitForAll
	}
	// With idempotence sarama takes no other number; fewer keep every guarantee, and the answer to connect says it. Up to
	// five, as Kafka has it: more are a mistake.
	if config.Producer.Idempotent && config.Net.MaxOpenRequests <= 5 {
		config.Net.MaxOpenRequests = 1
	}
	if err := config.Validate(); err != nil {
		if config.Producer.Idempotent && config.Net.MaxOpenRequests != 1 {
			return nil, inFlight, err
		}
		return nil, "", err
	}
	return config, "", nil
}

func names(sides ...map[string]setting) []string {
	found := []string{}
	for _, side := range sides {
		for name := range side {
			found = append(found, name)
		}
	}
	return found
}

func text(field func(*sarama.Config) *string) setting {
	return func(config *sarama.Config, value string) error { *field(config) = value; return nil }
}

func number(field func(*sarama.Config) *int) setting {
	return func(config *sarama.Config, value string) (err error) {
		*field(config), err = strconv.Atoi(value)
		return err
	}
}

func bytes(field func(*sarama.Config) *int32) setting {
	return func(config *sarama.Config, value string) error {
		n, err := strconv.ParseInt(value, 10, 32)
		*field(config) = int32(n)
		return err
	}
}

func flag(field func(*sarama.Config) *bool) setting {
	return func(config *sarama.Config, value string) (err error) {
		*field(config), err = strconv.ParseBool(value)
		return err
	}
}

func duration(value string) (time.Duration, error) {
	n, err := strconv.Atoi(value)
	return time.Duration(n) * time.Millisecond, err
}

func milliseconds(field func(*sarama.Config) *time.Duration) setting {
	return func(config *sarama.Config, value string) (err error) {
		*field(config), err = duration(value)
		return err
	}
}

func oneOf[V any](field func(*sarama.Config) *V, known map[string]V) setting {
	return func(config *sarama.Config, value string) error {
		chosen, found := known[value]
		if !found {
			return fmt.Errorf("%q is not one of its values", value)
		}
		*field(config) = chosen
		return nil
	}
}
