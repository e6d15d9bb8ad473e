package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const saramaBuffer = 4096

// saramaConsumer is either one PartitionConsumer without a group or a member whose sessions run in the background.
type saramaConsumer struct {
	config   *sarama.Config
	group    string
	messages chan *sarama.ConsumerMessage
	reader   sarama.Consumer
	part     sarama.PartitionConsumer
	member   sarama.ConsumerGroup
	cancel   context.CancelFunc
	ended    chan struct{}
	mutex    sync.Mutex
	held     map[int32]bool
	session  sarama.ConsumerGroupSession
	failure  error
}

func (c *saramaConsumer) Setup(session sarama.ConsumerGroupSession) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.session = session
	return nil
}

func (c *saramaConsumer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim runs once for each partition held, until it is taken away.
func (c *saramaConsumer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	c.hold(claim.Partition(), true)
	defer c.hold(claim.Partition(), false)
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case c.messages <- message:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (c *saramaConsumer) hold(partition int32, held bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if held {
		c.held[partition] = true
	} else {
		delete(c.held, partition)
	}
}

func (c *saramaConsumer) fail(err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.failure = err
}

func (c *saramaConsumer) taken() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	err := c.failure
	c.failure = nil
	return err
}

func (c *saramaConsumer) subscribe(bootstrap, topics []string) error {
	member, err := sarama.NewConsumerGroup(bootstrap, c.group, c.config)
	if err != nil {
		return err
	}
	background, cancel := context.WithCancel(context.Background())
	c.member, c.cancel, c.ended = member, cancel, make(chan struct{})
	go func() {
		for err := range member.Errors() {
			c.fail(err)
		}
	}()
	go func() {
		defer close(c.ended)
		for background.Err() == nil {
			// Its errors are those of brokers that are away; the documentation asks for a loop around it.
			if err := member.Consume(background, topics, c); errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			select {
			case <-background.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return nil
}

func (c *saramaConsumer) close() {
	if c.part != nil {
		c.part.AsyncClose()
		for range c.part.Messages() {
		}
		c.reader.Close()
	}
	if c.member != nil {
		c.cancel()
		c.member.Close()
		<-c.ended
	}
}

func saramaWith(version sarama.KafkaVersion) func([]string) map[string]handler {
	return func(bootstrap []string) map[string]handler {
		common := func() *sarama.Config {
			config := sarama.NewConfig()
			config.Version = version
			config.Metadata.RefreshFrequency = 2 * time.Second
			config.Metadata.Retry.Max = 10
			config.Metadata.AllowAutoTopicCreation = false
			config.Admin.Timeout = 60 * time.Second
			config.Admin.Retry.Max = 100
			return config
		}
		client, err := sarama.NewClient(bootstrap, common())
		if err != nil {
			panic(err)
		}
		admin, err := sarama.NewClusterAdminFromClient(client)
		if err != nil {
			panic(err)
		}
		handlers := map[string]handler{}
		consumers := map[string]*saramaConsumer{}
		saramaProducing(handlers, bootstrap, common, consumers)
		saramaConsuming(handlers, bootstrap, common, consumers, client, admin)
		saramaAdmin(handlers, client, admin)
		return handlers
	}
}

func saramaProducing(handlers map[string]handler, bootstrap []string, common func() *sarama.Config, consumers map[string]*saramaConsumer) {
	producers := map[string]sarama.SyncProducer{}
	handlers["producer_open"] = func(in call) (any, error) {
		config := common()
		config.Producer.Return.Successes = true
		config.Producer.Partitioner = sarama.NewManualPartitioner
		config.Producer.MaxMessageBytes = 5_000_000
		config.Producer.Flush.Frequency = time.Duration(in.number("linger_ms")) * time.Millisecond
		config.Producer.Retry.Max, config.Producer.Retry.Backoff = 600, 100*time.Millisecond
		config.Producer.Transaction.Retry.Max = 600
		config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
			"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
		}[in.text("acks")]
		if in.has("codec") {
			config.Producer.Compression = map[string]sarama.CompressionCodec{
				"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
				"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
			}[in.text("codec")]
		}
		if in.has("idempotence") || in.has("transactional_id") {
			config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
		}
		config.Producer.Transaction.ID = in.text("transactional_id")
		made, err := sarama.NewSyncProducer(bootstrap, config)
		if err == nil {
			producers[in.Name] = made
		}
		return nil, err
	}
	handlers["send"] = func(in call) (any, error) {
		var messages []*sarama.ProducerMessage
		for _, each := range in.Records {
			message := &sarama.ProducerMessage{Topic: in.Topic, Partition: in.Partition}
			if each.Key != nil {
				message.Key = sarama.StringEncoder(*each.Key)
			}
			if each.Value != nil {
				message.Value = sarama.StringEncoder(*each.Value)
			}
			for _, header := range each.Headers {
				message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header[0]), Value: []byte(header[1])})
			}
			if each.Timestamp != nil {
				message.Timestamp = time.UnixMilli(*each.Timestamp)
			}
			messages = append(messages, message)
		}
		if err := producers[in.Name].SendMessages(messages); err != nil {
			var several sarama.ProducerErrors
			if errors.As(err, &several) {
				return nil, several[0].Err
			}
			return nil, err
		}
		offsets := []int64{}
		for _, message := range messages {
			offsets = append(offsets, message.Offset)
		}
		return offsets, nil
	}
	// a producer with a transactional id gets its producer id when it is made
	handlers["init_transactions"] = func(call) (any, error) { return nil, nil }
	handlers["begin"] = func(in call) (any, error) { return nil, producers[in.Name].BeginTxn() }
	handlers["commit"] = func(in call) (any, error) { return nil, producers[in.Name].CommitTxn() }
	handlers["abort"] = func(in call) (any, error) { return nil, producers[in.Name].AbortTxn() }
	handlers["send_offsets"] = func(in call) (any, error) {
		offsets := map[string][]*sarama.PartitionOffsetMetadata{
			in.Topic: {{Partition: in.Partition, Offset: in.Offset, LeaderEpoch: -1}},
		}
		member := sarama.NewConsumerGroupMetadataFromSession(consumers[in.Consumer].session, in.Group, nil)
		return nil, producers[in.Name].AddOffsetsToTxnWithGroupMetadata(offsets, member)
	}
	handlers["reset"] = func(call) (any, error) {
		for name, each := range consumers {
			each.close()
			delete(consumers, name)
		}
		for name, each := range producers {
			each.Close()
			delete(producers, name)
		}
		return nil, nil
	}
}

func saramaConsuming(
	handlers map[string]handler, bootstrap []string, common func() *sarama.Config, consumers map[string]*saramaConsumer,
	client sarama.Client, admin sarama.ClusterAdmin,
) {
	handlers["consumer_open"] = func(in call) (any, error) {
		if in.text("protocol") == "consumer" {
			return nil, unsupported("no ConsumerGroupHeartbeat")
		}
		config := common()
		config.Consumer.Return.Errors = true
		config.Consumer.MaxWaitTime = 100 * time.Millisecond
		config.Consumer.Retry.Backoff = 100 * time.Millisecond
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
		config.Consumer.Offsets.AutoCommit.Enable = false
		config.Consumer.Group.Heartbeat.Interval = time.Second
		config.Consumer.Group.Rebalance.Retry.Max = 100
		if in.text("isolation") == "read_committed" {
			config.Consumer.IsolationLevel = sarama.ReadCommitted
		}
		strategies := map[string]sarama.BalanceStrategy{
			"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(),
			"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky(),
		}
		if strategy, found := strategies[in.text("assignor")]; found {
			config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
		}
		if in.has("instance") {
			config.Consumer.Group.InstanceId = in.text("instance")
			config.Consumer.Group.Session.Timeout = time.Duration(in.number("session_timeout_ms")) * time.Millisecond
		}
		consumers[in.Name] = &saramaConsumer{
			config: config, group: in.text("group"), held: map[int32]bool{},
			messages: make(chan *sarama.ConsumerMessage, saramaBuffer),
		}
		return nil, nil
	}
	handlers["assign"] = func(in call) (any, error) {
		consumer := consumers[in.Name]
		reader, err := sarama.NewConsumer(bootstrap, consumer.config)
		if err != nil {
			return nil, err
		}
		part, err := reader.ConsumePartition(in.Topic, in.Partition, in.Offset)
		if err != nil {
			reader.Close()
			if errors.Is(err, sarama.ErrOffsetOutOfRange) {
				return nil, unsupported("ConsumePartition refuses an offset out of range; only groups reset")
			}
			return nil, err
		}
		consumer.reader, consumer.part = reader, part
		go func() {
			for err := range part.Errors() {
				consumer.fail(err)
			}
		}()
		go func() {
			for message := range part.Messages() {
				consumer.messages <- message
			}
		}()
		return nil, nil
	}
	handlers["subscribe"] = func(in call) (any, error) { return nil, consumers[in.Name].subscribe(bootstrap, in.Topics) }
	handlers["poll"] = func(in call) (any, error) { return consumers[in.Name].poll(in.TimeoutMs) }
	handlers["commit_offset"] = func(in call) (any, error) {
		consumer := consumers[in.Name]
		consumer.taken()
		consumer.session.MarkOffset(in.Topic, in.Partition, in.Offset, "")
		consumer.session.Commit()
		return nil, consumer.taken()
	}
	committed := func(group, topic string, partition int32) (any, error) {
		found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {partition}})
		if err != nil {
			return nil, err
		}
		block := found.GetBlock(topic, partition)
		if found.Err != sarama.ErrNoError || block == nil {
			return nil, fmt.Errorf("no answer for the partition: %w", found.Err)
		}
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		if block.Offset < 0 {
			return nil, nil
		}
		return block.Offset, nil
	}
	handlers["committed"] = func(in call) (any, error) { return committed(consumers[in.Name].group, in.Topic, in.Partition) }
	handlers["group_offsets"] = func(in call) (any, error) { return committed(in.Group, in.Topic, in.Partition) }
	handlers["offset_for_time"] = func(in call) (any, error) {
		found, err := client.GetOffset(in.Topic, in.Partition, in.Timestamp)
		if err != nil || found < 0 {
			return nil, err
		}
		return found, nil
	}
	ends := func(in call) (int64, int64, error) {
		first, err := client.GetOffset(in.Topic, in.Partition, sarama.OffsetOldest)
		if err != nil {
			return 0, 0, err
		}
		next, err := client.GetOffset(in.Topic, in.Partition, sarama.OffsetNewest)
		return first, next, err
	}
	handlers["end_offsets"] = func(in call) (any, error) {
		first, next, err := ends(in)
		return []int64{first, next}, err
	}
	handlers["list_offsets"] = func(in call) (any, error) {
		partition := func(time int64) map[string]map[int32]int64 {
			return map[string]map[int32]int64{in.Topic: {in.Partition: time}}
		}
		found := map[string]int64{}
		for name, time := range map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest} {
			answer, err := admin.ListOffsets(partition(time), nil)
			if err != nil {
				return nil, err
			}
			if failed := answer[in.Topic][in.Partition].Err; failed != nil && failed != sarama.ErrNoError {
				return nil, failed
			}
			found[name] = answer[in.Topic][in.Partition].Offset
		}
		return found, nil
	}
	handlers["consumer_close"] = func(in call) (any, error) {
		consumers[in.Name].close()
		delete(consumers, in.Name)
		return nil, nil
	}
}

func (c *saramaConsumer) poll(timeoutMs int) (any, error) {
	result := polled{Records: []seen{}, Assignment: []int32{}}
	deadline := time.After(time.Duration(timeoutMs) * time.Millisecond)
	wait := deadline
	for done := false; !done; {
		select {
		case message := <-c.messages:
			headers := [][2]string{}
			for _, header := range message.Headers {
				headers = append(headers, [2]string{string(header.Key), string(header.Value)})
			}
			result.Records = append(result.Records, seen{
				Partition: message.Partition, Offset: message.Offset, Key: textOf(message.Key), Value: textOf(message.Value),
				Headers: headers, Timestamp: message.Timestamp.UnixMilli(),
			})
			wait = time.After(20 * time.Millisecond) // the rest of what has come; a poll does not wait for more
		case <-wait:
			done = true
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for each := range c.held {
		result.Assignment = append(result.Assignment, each)
	}
	return result, nil
}

func saramaAdmin(handlers map[string]handler, client sarama.Client, admin sarama.ClusterAdmin) {
	handlers["describe_cluster"] = func(call) (any, error) {
		found, _, err := admin.DescribeCluster()
		ids := []int32{}
		for _, each := range found {
			ids = append(ids, each.ID())
		}
		return ids, err
	}
	handlers["create_topic"] = func(in call) (any, error) {
		detail := &sarama.TopicDetail{NumPartitions: int32(in.Partitions), ReplicationFactor: in.Replication, ConfigEntries: in.settings()}
		return nil, admin.CreateTopic(in.Topic, detail, false)
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
		if err != nil {
			return nil, err
		}
		if found[0].Err != sarama.ErrNoError {
			return nil, found[0].Err
		}
		result := []map[string][]int32{}
		for _, each := range found[0].Partitions {
			result = append(result, map[string][]int32{"replicas": each.Replicas})
		}
		return result, nil
	}
	handlers["create_partitions"] = func(in call) (any, error) {
		return nil, admin.CreatePartitions(in.Topic, int32(in.Total), nil, false)
	}
	handlers["describe_configs"] = func(in call) (any, error) {
		kind := sarama.TopicResource
		if in.Kind == "broker" {
			kind = sarama.BrokerResource
		}
		found, err := admin.DescribeConfigs([]*sarama.ConfigResource{{Type: kind, Name: in.Name}}, sarama.DescribeConfigsOptions{})
		if err != nil {
			return nil, err
		}
		if found[0].ErrorCode != sarama.ErrNoError {
			return nil, found[0].ErrorCode
		}
		values := map[string]string{}
		for _, each := range found[0].Configs {
			values[each.Name] = each.Value
		}
		return values, nil
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
		if found[0].Err != sarama.ErrNoError {
			return nil, found[0].Err
		}
		return map[string]any{"state": found[0].State, "members": len(found[0].Members)}, nil
	}
	handlers["alter_group_offsets"] = func(in call) (any, error) {
		offsets := map[string]map[int32]sarama.OffsetAndMetadata{in.Topic: {in.Partition: {Offset: in.Offset, LeaderEpoch: -1}}}
		found, err := admin.AlterConsumerGroupOffsets(in.Group, offsets, nil)
		if err == nil && found.Errors[in.Topic][in.Partition] != sarama.ErrNoError {
			err = found.Errors[in.Topic][in.Partition]
		}
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
		if err != nil {
			return nil, err
		}
		if result := found[in.Topic][in.Partition]; result == nil || result.ErrorCode != sarama.ErrNoError {
			return nil, fmt.Errorf("%v", result)
		}
		return nil, nil
	}
	handlers["log_dirs"] = func(in call) (any, error) {
		ids := []int32{}
		for _, each := range client.Brokers() {
			ids = append(ids, each.ID())
		}
		found, err := admin.DescribeLogDirs(ids)
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
	handlers["producers"] = func(in call) (any, error) {
		found, err := admin.(sarama.TransactionClusterAdmin).DescribeProducers(map[string][]int32{in.Topic: {in.Partition}})
		if err != nil {
			return nil, saramaNeedsLater(err)
		}
		partition := found[in.Topic][in.Partition]
		if partition.ErrorCode != sarama.ErrNoError {
			return nil, partition.ErrorCode
		}
		return len(partition.ActiveProducers), nil
	}
	handlers["transactions"] = func(call) (any, error) {
		listed, err := admin.(sarama.TransactionClusterAdmin).ListTransactions(nil, nil, -1)
		found := map[string]string{}
		for _, each := range listed {
			found[each.TransactionalID] = each.TransactionState
		}
		return found, saramaNeedsLater(err)
	}
	handlers["reassign"] = func(in call) (any, error) {
		return nil, admin.AlterPartitionReassignments(in.Topic, [][]int32{in.Replicas})
	}
	handlers["acls"] = func(call) (any, error) {
		every := sarama.AclFilter{
			ResourceType: sarama.AclResourceAny, ResourcePatternTypeFilter: sarama.AclPatternAny,
			Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
		}
		found, err := admin.ListAcls(every)
		return len(found), err
	}
}

// saramaNeedsLater tells what Config.Version does not allow from what the broker refuses: sarama calls both the same.
func saramaNeedsLater(err error) error {
	if err != nil && errors.Is(err, sarama.ErrUnsupportedVersion) {
		return unsupported("not with Config.Version at its default, 2.8.0")
	}
	return err
}
