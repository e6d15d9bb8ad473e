package main

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const waitS = 200 * time.Second

type franzConsumer struct {
	client  *kgo.Client
	options []kgo.Opt
	group   string
	mutex   sync.Mutex
	held    map[int32]bool
}

func (c *franzConsumer) assigned(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	c.change(topics, true)
}

func (c *franzConsumer) revoked(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	c.change(topics, false)
}

func (c *franzConsumer) change(topics map[string][]int32, held bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, partitions := range topics {
		for _, each := range partitions {
			if held {
				c.held[each] = true
			} else {
				delete(c.held, each)
			}
		}
	}
}

func franz(bootstrap []string) map[string]handler {
	common := []kgo.Opt{kgo.SeedBrokers(bootstrap...), kgo.MetadataMaxAge(2 * time.Second), kgo.MetadataMinAge(100 * time.Millisecond)}
	producers, consumers := map[string]*kgo.Client{}, map[string]*franzConsumer{}
	base, err := kgo.NewClient(common...)
	if err != nil {
		panic(err)
	}
	admin := kadm.NewClient(base)
	background := context.Background()

	openProducer := func(in call) (any, error) {
		options := append([]kgo.Opt{
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1_000_000),
			kgo.ProducerLinger(time.Duration(in.number("linger_ms")) * time.Millisecond),
		}, common...)
		acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[in.text("acks")]
		options = append(options, kgo.RequiredAcks(acks))
		if in.has("transactional_id") {
			options = append(options, kgo.TransactionalID(in.text("transactional_id")))
		} else if !in.has("idempotence") {
			options = append(options, kgo.DisableIdempotentWrite())
		}
		if in.has("codec") {
			codec := map[string]kgo.CompressionCodec{
				"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
				"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
			}[in.text("codec")]
			options = append(options, kgo.ProducerBatchCompression(codec))
		}
		made, err := kgo.NewClient(options...)
		producers[in.Name] = made
		return nil, err
	}

	send := func(in call) (any, error) {
		var records []*kgo.Record
		for _, each := range in.Records {
			record := &kgo.Record{Topic: in.Topic, Partition: in.Partition, Key: bytesOf(each.Key), Value: bytesOf(each.Value)}
			for _, header := range each.Headers {
				record.Headers = append(record.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
			}
			if each.Timestamp != nil {
				record.Timestamp = time.UnixMilli(*each.Timestamp)
			}
			records = append(records, record)
		}
		// not RecordDeliveryTimeout: it counts from the record's timestamp, which may be an old one
		bounded, cancel := context.WithTimeout(background, waitS)
		defer cancel()
		results := producers[in.Name].ProduceSync(bounded, records...)
		if err := results.FirstErr(); err != nil {
			return nil, err
		}
		var offsets []int64
		for _, record := range records {
			offsets = append(offsets, record.Offset)
		}
		return offsets, nil
	}

	openConsumer := func(in call) (any, error) {
		options := append([]kgo.Opt{kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100 * time.Millisecond)}, common...)
		if in.text("isolation") == "read_committed" {
			options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		}
		made := &franzConsumer{held: map[int32]bool{}, group: in.text("group")}
		if in.has("group") {
			options = append(options, kgo.ConsumerGroup(in.text("group")), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(time.Second),
				kgo.OnPartitionsAssigned(made.assigned), kgo.OnPartitionsRevoked(made.revoked), kgo.OnPartitionsLost(made.revoked))
			balancers := map[string]kgo.GroupBalancer{
				"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
			}
			if in.text("protocol") == "consumer" {
				options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
			} else if balancer, found := balancers[in.text("assignor")]; found {
				options = append(options, kgo.Balancers(balancer))
			}
			if in.has("instance") {
				options = append(options, kgo.InstanceID(in.text("instance")))
			}
		}
		made.options = options
		consumers[in.Name] = made
		return nil, nil
	}

	open := func(name string, more ...kgo.Opt) error {
		consumer := consumers[name]
		client, err := kgo.NewClient(append(consumer.options, more...)...)
		consumer.client = client
		return err
	}

	poll := func(in call) (any, error) {
		consumer := consumers[in.Name]
		bounded, cancel := context.WithTimeout(background, time.Duration(in.TimeoutMs)*time.Millisecond)
		defer cancel()
		result := polled{Records: []seen{}, Assignment: []int32{}}
		fetches := consumer.client.PollFetches(bounded)
		for _, failed := range fetches.Errors() {
			if failed.Err != context.DeadlineExceeded && !kerr.IsRetriable(failed.Err) {
				return nil, failed.Err
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			headers := [][2]string{}
			for _, header := range record.Headers {
				headers = append(headers, [2]string{header.Key, string(header.Value)})
			}
			kind := int(record.Attrs.TimestampType())
			result.Records = append(result.Records, seen{
				Partition: record.Partition, Offset: record.Offset, Key: textOf(record.Key), Value: textOf(record.Value),
				Headers: headers, Timestamp: record.Timestamp.UnixMilli(), Type: &kind,
			})
		})
		consumer.mutex.Lock()
		defer consumer.mutex.Unlock()
		for each := range consumer.held {
			result.Assignment = append(result.Assignment, each)
		}
		return result, nil
	}

	committed := func(group, topic string, partition int32) (any, error) {
		found, err := admin.FetchOffsetsForTopics(background, group, topic)
		if err != nil {
			return nil, err
		}
		offset, there := found.Lookup(topic, partition)
		if !there || offset.At < 0 {
			return nil, offset.Err
		}
		return offset.At, offset.Err
	}

	ends := func(topic string, partition int32) (int64, int64, error) {
		first, err := admin.ListStartOffsets(background, topic)
		if err != nil {
			return 0, 0, err
		}
		last, err := admin.ListEndOffsets(background, topic)
		if err != nil {
			return 0, 0, err
		}
		begin, _ := first.Lookup(topic, partition)
		end, _ := last.Lookup(topic, partition)
		return begin.Offset, end.Offset, nil
	}

	handlers := map[string]handler{
		"producer_open": openProducer,
		"send":          send,
		"init_transactions": func(in call) (any, error) {
			_, _, err := producers[in.Name].ProducerID(background)
			return nil, err
		},
		"begin":  func(in call) (any, error) { return nil, producers[in.Name].BeginTransaction() },
		"commit": func(in call) (any, error) { return nil, producers[in.Name].EndTransaction(background, kgo.TryCommit) },
		"abort":  func(in call) (any, error) { return nil, producers[in.Name].EndTransaction(background, kgo.TryAbort) },
		"send_offsets": func(call) (any, error) {
			return nil, unsupported("GroupTransactSession commits what was polled, no chosen offsets")
		},
		"consumer_open": openConsumer,
		"assign": func(in call) (any, error) {
			at := kgo.NewOffset().At(in.Offset)
			return nil, open(in.Name, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{in.Topic: {in.Partition: at}}))
		},
		"subscribe": func(in call) (any, error) { return nil, open(in.Name, kgo.ConsumeTopics(in.Topics...)) },
		"poll":      poll,
		"commit_offset": func(in call) (any, error) {
			var failed error
			offsets := map[string]map[int32]kgo.EpochOffset{in.Topic: {in.Partition: {Epoch: -1, Offset: in.Offset}}}
			consumers[in.Name].client.CommitOffsetsSync(background, offsets,
				func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
					failed = err
					if err == nil {
						failed = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
					}
				})
			return nil, failed
		},
		"committed": func(in call) (any, error) { return committed(consumers[in.Name].group, in.Topic, in.Partition) },
		"offset_for_time": func(in call) (any, error) {
			found, err := admin.ListOffsetsAfterMilli(background, in.Timestamp, in.Topic)
			if err != nil {
				return nil, err
			}
			offset, _ := found.Lookup(in.Topic, in.Partition)
			if offset.Timestamp < 0 { // kadm answers the end when no record is as late
				return nil, offset.Err
			}
			return offset.Offset, offset.Err
		},
		"end_offsets": func(in call) (any, error) {
			begin, end, err := ends(in.Topic, in.Partition)
			return []int64{begin, end}, err
		},
		"list_offsets": func(in call) (any, error) {
			begin, end, err := ends(in.Topic, in.Partition)
			return map[string]int64{"earliest": begin, "latest": end}, err
		},
		"consumer_close": func(in call) (any, error) {
			if client := consumers[in.Name].client; client != nil {
				client.Close()
			}
			delete(consumers, in.Name)
			return nil, nil
		},
		"reset": func(call) (any, error) {
			for name, each := range consumers {
				if each.client != nil {
					each.client.Close()
				}
				delete(consumers, name)
			}
			for name, each := range producers {
				each.Close()
				delete(producers, name)
			}
			return nil, nil
		},
		"group_offsets": func(in call) (any, error) { return committed(in.Group, in.Topic, in.Partition) },
	}
	franzAdmin(handlers, base, admin)
	return handlers
}

func franzAdmin(handlers map[string]handler, base *kgo.Client, admin *kadm.Client) {
	background := context.Background()
	configs := func(found kadm.ResourceConfigs, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		result := map[string]any{}
		for _, each := range found[0].Configs {
			result[each.Key] = each.Value
		}
		return result, found[0].Err
	}
	handlers["describe_cluster"] = func(call) (any, error) {
		found, err := admin.BrokerMetadata(background)
		return found.Brokers.NodeIDs(), err
	}
	handlers["create_topic"] = func(in call) (any, error) {
		found, err := admin.CreateTopic(background, int32(in.Partitions), in.Replication, in.settings(), in.Topic)
		if err == nil {
			err = found.Err
		}
		return nil, err
	}
	handlers["delete_topic"] = func(in call) (any, error) {
		_, err := admin.DeleteTopic(background, in.Topic)
		return nil, err
	}
	handlers["list_topics"] = func(call) (any, error) {
		found, err := admin.ListTopics(background)
		return found.Names(), err
	}
	handlers["describe_topic"] = func(in call) (any, error) {
		found, err := admin.ListTopics(background, in.Topic)
		if err != nil {
			return nil, err
		}
		result := []map[string][]int32{}
		for _, each := range found[in.Topic].Partitions.Sorted() {
			result = append(result, map[string][]int32{"replicas": each.Replicas})
		}
		return result, found[in.Topic].Err
	}
	handlers["create_partitions"] = func(in call) (any, error) {
		found, err := admin.UpdatePartitions(background, in.Total, in.Topic)
		if err == nil {
			err = found.Error()
		}
		return nil, err
	}
	handlers["describe_configs"] = func(in call) (any, error) {
		if in.Kind == "topic" {
			return configs(admin.DescribeTopicConfigs(background, in.Name))
		}
		var broker int32
		fmt.Sscan(in.Name, &broker)
		return configs(admin.DescribeBrokerConfigs(background, broker))
	}
	handlers["alter_configs"] = func(in call) (any, error) {
		changes := []kadm.AlterConfig{}
		for key, value := range in.settings() {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: value})
		}
		alter := admin.AlterTopicConfigsState
		if in.Incremental {
			alter = admin.AlterTopicConfigs
		}
		found, err := alter(background, changes, in.Topic)
		if err == nil {
			err = found[0].Err
		}
		return nil, err
	}
	handlers["list_groups"] = func(call) (any, error) {
		found, err := admin.ListGroups(background)
		return found.Groups(), err
	}
	handlers["describe_group"] = func(in call) (any, error) {
		found, err := admin.DescribeGroups(background, in.Group)
		if err != nil {
			return nil, err
		}
		return map[string]any{"state": found[in.Group].State, "members": len(found[in.Group].Members)}, found[in.Group].Err
	}
	handlers["alter_group_offsets"] = func(in call) (any, error) {
		offsets := kadm.Offsets{}
		offsets.AddOffset(in.Topic, in.Partition, in.Offset, -1)
		found, err := admin.CommitOffsets(background, in.Group, offsets)
		if err == nil {
			err = found.Error()
		}
		return nil, err
	}
	handlers["delete_group_offsets"] = func(in call) (any, error) {
		topics := kadm.TopicsSet{}
		topics.Add(in.Topic, in.Partition)
		found, err := admin.DeleteOffsets(background, in.Group, topics)
		if err == nil {
			err = found.Error()
		}
		return nil, err
	}
	handlers["delete_group"] = func(in call) (any, error) {
		_, err := admin.DeleteGroup(background, in.Group)
		return nil, err
	}
	handlers["delete_records"] = func(in call) (any, error) {
		offsets := kadm.Offsets{}
		offsets.AddOffset(in.Topic, in.Partition, in.Offset, -1)
		found, err := admin.DeleteRecords(background, offsets)
		if err == nil {
			err = found.Error()
		}
		return nil, err
	}
	handlers["elect_leaders"] = func(in call) (any, error) {
		topics := kadm.TopicsSet{}
		topics.Add(in.Topic, in.Partition)
		found, err := admin.ElectLeaders(background, kadm.ElectPreferredReplica, topics)
		if err == nil {
			err = found[in.Topic][in.Partition].Err
		}
		return nil, err
	}
	handlers["log_dirs"] = func(in call) (any, error) {
		found, err := admin.DescribeAllLogDirs(background, nil)
		sizes := []int64{}
		for _, broker := range found {
			for _, directory := range broker {
				for _, each := range directory.Topics[in.Topic] {
					sizes = append(sizes, each.Size)
				}
			}
		}
		return sizes, err
	}
	handlers["producers"] = func(in call) (any, error) {
		topics := kadm.TopicsSet{}
		topics.Add(in.Topic, in.Partition)
		found, err := admin.DescribeProducers(background, topics)
		if err != nil {
			return nil, err
		}
		partition := found[in.Topic].Partitions[in.Partition]
		return len(partition.ActiveProducers), partition.Err
	}
	handlers["transactions"] = func(call) (any, error) {
		found, err := admin.ListTransactions(background, nil, nil)
		result := map[string]string{}
		for id, each := range found {
			result[id] = each.State
		}
		return result, err
	}
	handlers["quorum"] = func(call) (any, error) {
		request := kmsg.NewPtrDescribeQuorumRequest()
		partition := kmsg.NewDescribeQuorumRequestTopicPartition()
		topic := kmsg.NewDescribeQuorumRequestTopic()
		topic.Topic, topic.Partitions = "__cluster_metadata", append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
		found, err := request.RequestWith(background, base)
		if err != nil {
			return nil, err
		}
		answer := found.Topics[0].Partitions[0]
		voters := []int{}
		for _, each := range answer.CurrentVoters {
			voters = append(voters, int(each.ReplicaID))
		}
		sort.Ints(voters)
		return map[string]any{"leader": answer.LeaderID, "voters": voters}, kerr.ErrorForCode(answer.ErrorCode)
	}
	handlers["reassign"] = func(in call) (any, error) {
		var request kadm.AlterPartitionAssignmentsReq
		request.Assign(in.Topic, in.Partition, in.Replicas)
		found, err := admin.AlterPartitionAssignments(background, request)
		if err == nil {
			err = found.Error()
		}
		return nil, err
	}
	handlers["acls"] = func(call) (any, error) {
		every := kadm.NewACLs().AnyResource().Allow().Deny().AllowHosts().DenyHosts().Operations().ResourcePatternType(kadm.ACLPatternAny)
		found, err := admin.DescribeACLs(background, every)
		lists := 0
		for _, each := range found {
			lists += len(each.Described)
			if err == nil {
				err = each.Err
			}
		}
		return lists, err
	}
}
