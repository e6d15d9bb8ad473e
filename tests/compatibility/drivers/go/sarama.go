package main

import (
	"context"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type saramaConsumer struct {
	config  *sarama.Config
	group   string
	single  sarama.PartitionConsumer
	client  sarama.Client
	member  sarama.ConsumerGroup
	stop    context.CancelFunc
	done    chan struct{}
	mutex   sync.Mutex
	held    []int32
	session sarama.ConsumerGroupSession
	records chan *sarama.ConsumerMessage
	failure error
}

// Setup, Cleanup and ConsumeClaim are what a member of a group is to sarama.
func (c *saramaConsumer) Setup(session sarama.ConsumerGroupSession) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.session, c.held = session, nil
	for _, partitions := range session.Claims() {
		c.held = append(c.held, partitions...)
	}
	return nil
}

func (c *saramaConsumer) Cleanup(sarama.ConsumerGroupSession) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.held = nil
	return nil
}

func (c *saramaConsumer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case c.records <- message:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (c *saramaConsumer) close() {
	if c.single != nil {
		c.single.Close()
		c.client.Close()
	}
	if c.member != nil {
		c.stop()
		c.member.Close()
		<-c.done
	}
}

func saramaDriver(bootstrap []string) map[string]handler {
	settings := func() *sarama.Config {
		made := sarama.NewConfig()
		made.Version = sarama.MaxVersion
		made.Metadata.RefreshFrequency = 2 * time.Second
		made.Metadata.Retry.Max = 40
		made.Producer.Retry.Max = 60
		made.Producer.Return.Successes = true
		made.Producer.Partitioner = sarama.NewManualPartitioner
		made.Producer.MaxMessageBytes = 1_000_000
		made.Consumer.MaxWaitTime = 100 * time.Millisecond
		made.Consumer.Group.Heartbeat.Interval = time.Second
		made.Consumer.Offsets.AutoCommit.Enable = false
		made.Consumer.Offsets.Initial = sarama.OffsetOldest
		made.Consumer.Group.ResetInvalidOffsets = true
		return made
	}
	client, err := sarama.NewClient(bootstrap, settings())
	if err != nil {
		panic(err)
	}
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		panic(err)
	}
	producers, noOffsets, consumers := map[string]sarama.SyncProducer{}, map[string]bool{}, map[string]*saramaConsumer{}

	openProducer := func(in call) (any, error) {
		made := settings()
		made.Producer.RequiredAcks = map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}[in.text("acks")]
		made.Producer.Flush.Frequency = time.Duration(in.number("linger_ms")) * time.Millisecond
		if in.has("codec") {
			made.Producer.Compression = map[string]sarama.CompressionCodec{
				"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
				"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
			}[in.text("codec")]
		}
		if in.has("idempotence") || in.has("transactional_id") {
			made.Producer.Idempotent, made.Net.MaxOpenRequests = true, 1
			made.Producer.Transaction.ID = in.text("transactional_id")
		}
		producer, err := sarama.NewSyncProducer(bootstrap, made)
		producers[in.Name], noOffsets[in.Name] = producer, in.text("acks") == "0"
		return nil, err
	}

	send := func(in call) (any, error) {
		messages := []*sarama.ProducerMessage{}
		for _, each := range in.Records {
			message := &sarama.ProducerMessage{Topic: in.Topic, Partition: in.Partition}
			if each.Key != nil {
				message.Key = sarama.StringEncoder(*each.Key)
			}
			if each.Value != nil {
				message.Value = sarama.StringEncoder(*each.Value)
			}
			if each.Timestamp != nil {
				message.Timestamp = time.UnixMilli(*each.Timestamp)
			}
			for _, header := range each.Headers {
				message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header[0]), Value: []byte(header[1])})
			}
			messages = append(messages, message)
		}
		if err := producers[in.Name].SendMessages(messages); err != nil {
			if several, is := err.(sarama.ProducerErrors); is {
				err = several[0].Err
			}
			return nil, err
		}
		offsets := []int64{}
		for _, each := range messages {
			if noOffsets[in.Name] {
				each.Offset = -1
			}
			offsets = append(offsets, each.Offset)
		}
		return offsets, nil
	}

	openConsumer := func(in call) (any, error) {
		if in.text("protocol") == "consumer" {
			return nil, unsupported("its consumer groups speak the classic protocol only")
		}
		made := settings()
		if in.text("isolation") == "read_committed" {
			made.Consumer.IsolationLevel = sarama.ReadCommitted
		}
		strategies := map[string]func() sarama.BalanceStrategy{
			"range": sarama.NewBalanceStrategyRange, "roundrobin": sarama.NewBalanceStrategyRoundRobin,
			"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
		}
		if strategy, found := strategies[in.text("assignor")]; found {
			made.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy()}
		}
		if in.has("instance") {
			made.Consumer.Group.InstanceId = in.text("instance")
			made.Consumer.Group.Session.Timeout = time.Duration(in.number("session_timeout_ms")) * time.Millisecond
		}
		consumers[in.Name] = &saramaConsumer{config: made, group: in.text("group"), records: make(chan *sarama.ConsumerMessage, 1000)}
		return nil, nil
	}

	subscribe := func(in call) (any, error) {
		consumer := consumers[in.Name]
		member, err := sarama.NewConsumerGroup(bootstrap, consumer.group, consumer.config)
		if err != nil {
			return nil, err
		}
		bounded, stop := context.WithCancel(context.Background())
		consumer.member, consumer.stop, consumer.done = member, stop, make(chan struct{})
		go func() {
			defer close(consumer.done)
			for bounded.Err() == nil {
				if err := member.Consume(bounded, in.Topics, consumer); err != nil {
					consumer.mutex.Lock()
					consumer.failure = err
					consumer.mutex.Unlock()
					time.Sleep(50 * time.Millisecond)
				}
			}
		}()
		return nil, nil
	}

	assign := func(in call) (any, error) {
		consumer := consumers[in.Name]
		own, err := sarama.NewClient(bootstrap, consumer.config)
		if err != nil {
			return nil, err
		}
		reader, err := sarama.NewConsumerFromClient(own)
		if err != nil {
			return nil, err
		}
		single, err := reader.ConsumePartition(in.Topic, in.Partition, in.Offset)
		if err == sarama.ErrOffsetOutOfRange {
			return nil, unsupported("a consumer of one partition has no reset of offsets")
		}
		consumer.single, consumer.client = single, own
		return nil, err
	}

	poll := func(in call) (any, error) {
		consumer := consumers[in.Name]
		source := (<-chan *sarama.ConsumerMessage)(consumer.records)
		if consumer.single != nil {
			source = consumer.single.Messages()
		}
		result := polled{Records: []seen{}, Assignment: []int32{}}
		wait := time.After(time.Duration(in.TimeoutMs) * time.Millisecond)
		for waiting := true; waiting; {
			select {
			case message := <-source:
				headers := [][2]string{}
				for _, header := range message.Headers {
					headers = append(headers, [2]string{string(header.Key), string(header.Value)})
				}
				result.Records = append(result.Records, seen{
					Partition: message.Partition, Offset: message.Offset, Key: textOf(message.Key), Value: textOf(message.Value),
					Headers: headers, Timestamp: message.Timestamp.UnixMilli(),
				})
			case <-wait:
				waiting = false
			}
		}
		consumer.mutex.Lock()
		defer consumer.mutex.Unlock()
		result.Assignment = append(result.Assignment, consumer.held...)
		return result, nil
	}

	committed := func(group, topic string, partition int32) (any, error) {
		found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {partition}})
		if err != nil {
			return nil, err
		}
		block := found.GetBlock(topic, partition)
		if block == nil || block.Offset < 0 {
			return nil, nil
		}
		return block.Offset, nil
	}

	ends := func(topic string, partition int32) (int64, int64, error) {
		begin, err := client.GetOffset(topic, partition, sarama.OffsetOldest)
		if err != nil {
			return 0, 0, err
		}
		end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
		return begin, end, err
	}

	handlers := map[string]handler{
		"producer_open":     openProducer,
		"send":              send,
		"init_transactions": func(call) (any, error) { return nil, nil }, // opening a transactional producer does it
		"begin":             func(in call) (any, error) { return nil, producers[in.Name].BeginTxn() },
		"commit":            func(in call) (any, error) { return nil, producers[in.Name].CommitTxn() },
		"abort":             func(in call) (any, error) { return nil, producers[in.Name].AbortTxn() },
		"send_offsets": func(in call) (any, error) {
			offsets := map[string][]*sarama.PartitionOffsetMetadata{in.Topic: {{Partition: in.Partition, Offset: in.Offset, LeaderEpoch: -1}}}
			return nil, producers[in.Name].AddOffsetsToTxn(offsets, in.Group)
		},
		"consumer_open": openConsumer,
		"assign":        assign,
		"subscribe":     subscribe,
		"poll":          poll,
		"commit_offset": func(in call) (any, error) {
			consumer := consumers[in.Name]
			consumer.mutex.Lock()
			defer consumer.mutex.Unlock()
			consumer.session.MarkOffset(in.Topic, in.Partition, in.Offset, "")
			consumer.session.Commit()
			return nil, nil
		},
		"committed": func(in call) (any, error) { return committed(consumers[in.Name].group, in.Topic, in.Partition) },
		"offset_for_time": func(in call) (any, error) {
			offset, err := client.GetOffset(in.Topic, in.Partition, in.Timestamp)
			if offset < 0 {
				return nil, err
			}
			return offset, err
		},
		"end_offsets": func(in call) (any, error) {
			begin, end, err := ends(in.Topic, in.Partition)
			return []int64{begin, end}, err
		},
		"list_offsets": func(in call) (any, error) {
			result := map[string]int64{}
			for name, at := range map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest} {
				found, err := admin.ListOffsets(map[string]map[int32]int64{in.Topic: {in.Partition: at}}, nil)
				if err != nil {
					return nil, err
				}
				result[name] = found[in.Topic][in.Partition].Offset
			}
			return result, nil
		},
		"consumer_close": func(in call) (any, error) {
			consumers[in.Name].close()
			delete(consumers, in.Name)
			return nil, nil
		},
		"reset": func(call) (any, error) {
			for name, each := range consumers {
				each.close()
				delete(consumers, name)
			}
			for name, each := range producers {
				if each != nil {
					each.Close()
				}
				delete(producers, name)
			}
			return nil, nil
		},
		"group_offsets": func(in call) (any, error) { return committed(in.Group, in.Topic, in.Partition) },
	}
	saramaAdmin(handlers, client, admin)
	return handlers
}

func saramaAdmin(handlers map[string]handler, client sarama.Client, admin sarama.ClusterAdmin) {
	brokers := func() []int32 {
		found := []int32{}
		for _, each := range client.Brokers() {
			found = append(found, each.ID())
		}
		return found
	}
	handlers["describe_cluster"] = func(call) (any, error) {
		listed, _, err := admin.DescribeCluster()
		found := []int32{}
		for _, each := range listed {
			found = append(found, each.ID())
		}
		return found, err
	}
	handlers["create_topic"] = func(in call) (any, error) {
		return nil, admin.CreateTopic(in.Topic, &sarama.TopicDetail{
			NumPartitions: int32(in.Partitions), ReplicationFactor: in.Replication, ConfigEntries: in.settings(),
		}, false)
	}
	handlers["delete_topic"] = func(in call) (any, error) { return nil, admin.DeleteTopic(in.Topic) }
	handlers["list_topics"] = func(call) (any, error) {
		found, err := admin.ListTopics()
		names := []string{}
		for name := range found {
			names = append(names, name)
		}
		return names, err
	}
	handlers["describe_topic"] = func(in call) (any, error) {
		found, err := admin.DescribeTopics([]string{in.Topic})
		result := []map[string][]int32{}
		for _, topic := range found {
			for _, each := range topic.Partitions {
				result = append(result, map[string][]int32{"replicas": each.Replicas})
			}
		}
		return result, err
	}
	handlers["create_partitions"] = func(in call) (any, error) {
		return nil, admin.CreatePartitions(in.Topic, int32(in.Total), nil, false)
	}
	handlers["describe_configs"] = func(in call) (any, error) {
		kind := map[string]sarama.ConfigResourceType{"topic": sarama.TopicResource, "broker": sarama.BrokerResource}[in.Kind]
		found, err := admin.DescribeConfig(sarama.ConfigResource{Type: kind, Name: in.Name})
		result := map[string]string{}
		for _, each := range found {
			result[each.Name] = each.Value
		}
		return result, err
	}
	handlers["alter_configs"] = func(in call) (any, error) {
		if !in.Incremental {
			return nil, admin.AlterConfig(sarama.TopicResource, in.Topic, in.settings(), false)
		}
		changes := map[string]sarama.IncrementalAlterConfigsEntry{}
		for key, value := range in.settings() {
			changes[key] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: value}
		}
		return nil, admin.IncrementalAlterConfig(sarama.TopicResource, in.Topic, changes, false)
	}
	handlers["list_groups"] = func(call) (any, error) {
		found, err := admin.ListConsumerGroups()
		names := []string{}
		for name := range found {
			names = append(names, name)
		}
		return names, err
	}
	handlers["describe_group"] = func(in call) (any, error) {
		found, err := admin.DescribeConsumerGroups([]string{in.Group})
		if err != nil {
			return nil, err
		}
		return map[string]any{"state": found[0].State, "members": len(found[0].Members)}, nil
	}
	handlers["alter_group_offsets"] = func(in call) (any, error) {
		offsets := map[string]map[int32]sarama.OffsetAndMetadata{in.Topic: {in.Partition: {Offset: in.Offset}}}
		_, err := admin.AlterConsumerGroupOffsets(in.Group, offsets, nil)
		return nil, err
	}
	handlers["delete_group_offsets"] = func(in call) (any, error) {
		return nil, admin.DeleteConsumerGroupOffset(in.Group, in.Topic, in.Partition)
	}
	handlers["delete_group"] = func(in call) (any, error) { return nil, admin.DeleteConsumerGroup(in.Group) }
	handlers["delete_records"] = func(in call) (any, error) {
		return nil, admin.DeleteRecords(in.Topic, map[int32]int64{in.Partition: in.Offset})
	}
	handlers["elect_leaders"] = func(in call) (any, error) {
		found, err := admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{in.Topic: {in.Partition}})
		if err == nil {
			if each := found[in.Topic][in.Partition]; each != nil && each.ErrorCode != sarama.ErrNoError {
				err = each.ErrorCode
			}
		}
		return nil, err
	}
	handlers["set_quota"] = func(in call) (any, error) {
		operation := sarama.ClientQuotasOp{Key: in.Quota, Remove: in.Value == nil}
		if in.Value != nil {
			operation.Value = *in.Value
		}
		entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Name: in.Client}}
		return nil, admin.AlterClientQuotas(entity, operation, false)
	}
	handlers["quotas"] = func(in call) (any, error) {
		component := sarama.QuotaFilterComponent{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Match: in.Client}
		found, err := admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{component}, true)
		result := map[string]float64{}
		for _, each := range found {
			result = each.Values
		}
		return result, err
	}
	handlers["log_dirs"] = func(in call) (any, error) {
		found, err := admin.DescribeLogDirs(brokers())
		sizes := []int64{}
		for _, directories := range found {
			for _, directory := range directories {
				for _, topic := range directory.Topics {
					for _, each := range topic.Partitions {
						if topic.Topic == in.Topic {
							sizes = append(sizes, each.Size)
						}
					}
				}
			}
		}
		return sizes, err
	}
	handlers["reassign"] = func(in call) (any, error) {
		return nil, admin.AlterPartitionReassignments(in.Topic, [][]int32{in.Replicas})
	}
	handlers["acls"] = func(call) (any, error) {
		found, err := admin.ListAcls(sarama.AclFilter{
			ResourceType: sarama.AclResourceAny, Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
			ResourcePatternTypeFilter: sarama.AclPatternAny,
		})
		return len(found), err
	}
}
