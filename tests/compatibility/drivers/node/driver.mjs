// kafkajs as a driver: `node driver.mjs BOOTSTRAP`. Calls and answers are lines of JSON.
import { createInterface } from "node:readline";
import kafkajs from "kafkajs";
import Lz4 from "kafkajs-lz4";
import snappy from "kafkajs-snappy";

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, PartitionAssigners, logLevel } = kafkajs;
CompressionCodecs[CompressionTypes.LZ4] = new Lz4().codec;
CompressionCodecs[CompressionTypes.Snappy] = snappy;

class Unsupported extends Error {}
const need = (isThere, what) => {
  if (!isThere) throw new Unsupported(what);
};

const kafka = new Kafka({
  brokers: process.argv[2].split(","),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, maxRetryTime: 2000, retries: 30 },
});
const producers = new Map();
const consumers = new Map();
let administration;
const admin = async () => {
  if (administration === undefined) {
    administration = kafka.admin();
    await administration.connect();
  }
  return administration;
};
const text = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString());
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function openConsumer({ name, config }) {
  need(config.protocol !== "consumer", "no setting for the group protocol");
  need(!config.assignor || config.assignor === "roundrobin", `its only assignor is round robin (${config.assignor})`);
  need(!("instance" in config), "no group.instance.id");
  const consumer = kafka.consumer({
    groupId: config.group ?? `nobody-${process.pid}-${Math.random()}`,
    readUncommitted: config.isolation !== "read_committed",
    partitionAssigners: [PartitionAssigners.roundRobin],
    heartbeatInterval: 1000,
    maxWaitTimeInMs: 100,
    metadataMaxAge: 2000,
  });
  const state = { consumer, group: config.group, held: [], records: [], failure: null };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    state.held = Object.values(payload.memberAssignment).flat();
  });
  consumer.on(consumer.events.REBALANCING, () => {
    state.held = [];
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    state.failure = payload.restart ? null : payload.error;
  });
  await consumer.connect();
  consumers.set(name, state);
}

async function run(state, topics) {
  await state.consumer.subscribe({ topics, fromBeginning: true });
  await state.consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      const headers = Object.entries(message.headers ?? {}).flatMap(([key, values]) =>
        [values].flat().map((value) => [key, text(value)]),
      );
      state.records.push({
        partition,
        offset: Number(message.offset),
        key: text(message.key),
        value: text(message.value),
        headers,
        timestamp: Number(message.timestamp),
        timestamp_type: null,
      });
    },
  });
}

async function send({ name, topic, partition, records }) {
  const { producer, acks, compression, transaction } = producers.get(name);
  const messages = records.map(({ key, value, headers, timestamp }) => {
    const listed = {};
    for (const [name, text] of headers) listed[name] = name in listed ? [listed[name], text].flat() : text;
    return { key, value, headers: listed, partition, ...(timestamp === null ? {} : { timestamp: String(timestamp) }) };
  });
  const target = transaction ?? producer;
  const found = await target.send({ topic, acks, compression, messages });
  if (acks === 0) return records.map(() => -1);
  const base = Number(found[0].baseOffset);
  return records.map((_, index) => base + index);
}

async function committed(groupId, topic, partition) {
  const found = await (await admin()).fetchOffsets({ groupId, topics: [topic] });
  const offset = Number(found[0].partitions.find((each) => each.partition === partition)?.offset ?? -1);
  return offset < 0 ? null : offset;
}

async function ends(topic, partition) {
  const found = await (await admin()).fetchTopicOffsets(topic);
  const one = found.find((each) => each.partition === partition);
  return [Number(one.low), Number(one.high)];
}

const calls = {
  async producer_open({ name, config }) {
    need(config.codec !== "zstd", "no codec for zstd without a package of native code");
    const compressions = { none: "None", gzip: "GZIP", snappy: "Snappy", lz4: "LZ4" };
    const producer = kafka.producer({
      transactionalId: config.transactional_id,
      idempotent: Boolean(config.idempotence || config.transactional_id),
      maxInFlightRequests: config.transactional_id ? 1 : undefined,
    });
    await producer.connect();
    const acks = config.acks === "all" ? -1 : Number(config.acks);
    const compression = CompressionTypes[compressions[config.codec ?? "none"]];
    producers.set(name, { producer, acks, compression, transaction: null });
  },
  send,
  async init_transactions() {}, // connecting does it
  async begin({ name }) {
    const state = producers.get(name);
    state.transaction = await state.producer.transaction();
  },
  async commit({ name }) {
    await producers.get(name).transaction.commit();
    producers.get(name).transaction = null;
  },
  async abort({ name }) {
    await producers.get(name).transaction.abort();
    producers.get(name).transaction = null;
  },
  async send_offsets({ name, group, topic, partition, offset }) {
    const topics = [{ topic, partitions: [{ partition, offset: String(offset) }] }];
    await producers.get(name).transaction.sendOffsets({ consumerGroupId: group, topics });
  },
  consumer_open: openConsumer,
  async assign({ name, topic, partition, offset }) {
    const state = consumers.get(name); // every reader is a member of some group
    await run(state, [topic]);
    state.consumer.seek({ topic, partition, offset: String(offset) });
  },
  async subscribe({ name, topics }) {
    await run(consumers.get(name), topics);
  },
  async poll({ name, timeout_ms }) {
    const state = consumers.get(name);
    for (const end = Date.now() + timeout_ms; Date.now() < end && state.records.length === 0; ) await wait(20);
    if (state.failure) throw state.failure;
    return { records: state.records.splice(0), assignment: state.held };
  },
  async commit_offset({ name, topic, partition, offset }) {
    await consumers.get(name).consumer.commitOffsets([{ topic, partition, offset: String(offset) }]);
  },
  committed: ({ name, topic, partition }) => committed(consumers.get(name).group, topic, partition),
  group_offsets: ({ group, topic, partition }) => committed(group, topic, partition),
  async offset_for_time({ topic, partition, timestamp }) {
    const found = await (await admin()).fetchTopicOffsetsByTimestamp(topic, timestamp);
    const offset = Number(found.find((each) => each.partition === partition).offset);
    const [, end] = await ends(topic, partition); // it answers the end when no record is as late
    return offset < 0 || offset === end ? null : offset;
  },
  end_offsets: ({ topic, partition }) => ends(topic, partition),
  async list_offsets({ topic, partition }) {
    const [earliest, latest] = await ends(topic, partition);
    return { earliest, latest };
  },
  async consumer_close({ name }) {
    const { consumer } = consumers.get(name);
    consumers.delete(name);
    await consumer.disconnect();
  },
  async reset() {
    for (const { consumer } of consumers.values()) await consumer.disconnect();
    for (const { producer } of producers.values()) await producer.disconnect();
    consumers.clear();
    producers.clear();
  },
  describe_cluster: async () => (await (await admin()).describeCluster()).brokers.map((each) => each.nodeId),
  async create_topic({ topic, partitions, replication, config }) {
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
    const made = { topic, numPartitions: partitions, replicationFactor: replication, configEntries };
    const isNew = await (await admin()).createTopics({ topics: [made], waitForLeaders: false });
    if (!isNew) throw new Error("the topic already exists"); // its way to say so
  },
  delete_topic: async ({ topic }) => (await admin()).deleteTopics({ topics: [topic] }),
  list_topics: async () => (await admin()).listTopics(),
  async describe_topic({ topic }) {
    const found = await (await admin()).fetchTopicMetadata({ topics: [topic] });
    return found.topics[0].partitions.map((each) => ({ replicas: each.replicas }));
  },
  create_partitions: async ({ topic, total }) =>
    (await admin()).createPartitions({ topicPartitions: [{ topic, count: total }] }),
  async describe_configs({ kind, name }) {
    const type = kind === "topic" ? ConfigResourceTypes.TOPIC : ConfigResourceTypes.BROKER;
    const found = await (await admin()).describeConfigs({ resources: [{ type, name }], includeSynonyms: false });
    const entries = found.resources[0].configEntries;
    return Object.fromEntries(entries.map(({ configName, configValue }) => [configName, configValue]));
  },
  async alter_configs({ topic, config, incremental }) {
    need(!incremental, "no call for IncrementalAlterConfigs");
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries };
    await (await admin()).alterConfigs({ validateOnly: false, resources: [resource] });
  },
  list_groups: async () => (await (await admin()).listGroups()).groups.map((each) => each.groupId),
  async describe_group({ group }) {
    const found = (await (await admin()).describeGroups([group])).groups[0];
    return { state: found.state, members: found.members.length };
  },
  async alter_group_offsets({ group, topic, partition, offset }) {
    const partitions = [{ partition, offset: String(offset) }];
    await (await admin()).setOffsets({ groupId: group, topic, partitions });
  },
  async delete_group({ group }) {
    try {
      await (await admin()).deleteGroups([group]);
    } catch (error) {
      throw error.groups ? new Error(error.groups.map((each) => each.error).join()) : error;
    }
  },
  async delete_records({ topic, partition, offset }) {
    await (await admin()).deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] });
  },
  reassign: async ({ topic, partition, replicas }) =>
    (await admin()).alterPartitionReassignments({
      topics: [{ topic, partitionAssignment: [{ partition, replicas }] }],
    }),
  async acls() {
    const found = await (await admin()).describeAcls({
      resourceType: 1, resourcePatternType: 1, operation: 1, permissionType: 1,
    });
    return found.resources.length;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    if (!(request.call in calls)) throw new Unsupported(`kafkajs has no call for it (${request.call})`);
    answer = { result: (await calls[request.call](request)) ?? null };
  } catch (error) {
    const details = [error.errors ?? []].flat().map((each) => `${each.type ?? ""} ${each.message}`);
    const words = [error.name, error.type, error.message, ...details].filter(Boolean).join(": ");
    answer = error instanceof Unsupported ? { unsupported: error.message } : { error: words };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit(0);
