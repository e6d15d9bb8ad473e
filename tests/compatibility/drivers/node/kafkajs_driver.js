// kafkajs as a driver: `node kafkajs_driver.js BOOTSTRAP`. Calls and answers are lines of JSON.
//
// kafkajs has no consumer without a group: a reader joins one of its own and seeks. It gives records to a handler as
// they come; a poll takes what the handler has kept.
'use strict'

const readline = require('readline')
const {
  Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, AclResourceTypes, AclOperationTypes,
  AclPermissionTypes, ResourcePatternTypes, logLevel,
} = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

class Unsupported extends Error {}

const log = () => ({ namespace, log }) => process.stderr.write(`${namespace} ${JSON.stringify(log)}\n`)
const kafka = new Kafka({
  brokers: process.argv[2].split(','),
  clientId: 'kafkajs',
  logLevel: logLevel.WARN,
  logCreator: log,
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 150 },
})
const producers = new Map()
const consumers = new Map()
let connectedAdmin = null

async function admin() {
  if (connectedAdmin === null) {
    connectedAdmin = kafka.admin({ retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 30 } })
    await connectedAdmin.connect()
  }
  return connectedAdmin
}

function need(isThere, what) {
  if (!isThere) throw new Unsupported(what)
}

const textOf = bytes => (bytes === null || bytes === undefined ? null : bytes.toString('utf8'))
const wait = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

async function openProducer({ name, config }) {
  const codecs = { none: 'None', gzip: 'GZIP', snappy: 'Snappy' }
  const codec = config.codec || 'none'
  need(codec in codecs, `no codec ${codec} of its own`)
  const transactionalId = config.transactional_id
  const made = {
    compression: CompressionTypes[codecs[codec]],
    acks: config.acks === 'all' ? -1 : Number(config.acks),
    transaction: null,
    client: kafka.producer({
      idempotent: Boolean(config.idempotence || transactionalId),
      maxInFlightRequests: transactionalId ? 1 : undefined,
      transactionalId,
      allowAutoTopicCreation: false,
      metadataMaxAge: 2000,
    }),
  }
  await made.client.connect()
  producers.set(name, made)
}

async function send({ name, topic, partition, records }) {
  const producer = producers.get(name)
  const messages = records.map(record => {
    const headers = {}
    for (const [key, value] of record.headers) {
      if (!(key in headers)) headers[key] = value
      else headers[key] = [].concat(headers[key], value)
    }
    const timestamp = record.timestamp === null ? undefined : String(record.timestamp)
    return { key: record.key, value: record.value, partition, headers, timestamp }
  })
  const sender = producer.transaction || producer.client
  const found = await sender.send({ topic, acks: producer.acks, compression: producer.compression, messages })
  if (!found || found.length === 0 || found[0].baseOffset === undefined) return records.map(() => -1)
  return records.map((_, index) => Number(found[0].baseOffset) + index)
}

function openConsumer({ name, config }) {
  need(config.protocol !== 'consumer', 'no setting for the group protocol')
  need(!config.assignor || config.assignor === 'roundrobin', `no assignor ${config.assignor}`)
  need(!config.instance, 'no static members')
  const group = config.group || `reader-${Math.random().toString(36).slice(2)}`
  const client = kafka.consumer({
    groupId: group,
    heartbeatInterval: 1000,
    maxWaitTimeInMs: 100,
    metadataMaxAge: 2000,
    allowAutoTopicCreation: false,
    readUncommitted: config.isolation !== 'read_committed',
  })
  const made = { client, group, autoCommit: Boolean(config.auto_commit), records: [], held: [], failure: null, joined: null }
  made.joined = new Promise(resolve =>
    client.on(client.events.GROUP_JOIN, ({ payload }) => {
      made.held = Object.values(payload.memberAssignment).flat()
      resolve()
    })
  )
  client.on(client.events.CRASH, ({ payload }) => {
    if (!payload.restart) made.failure = payload.error
  })
  consumers.set(name, made)
}

async function subscribe({ name, topics }) {
  const consumer = consumers.get(name)
  await consumer.client.connect()
  await consumer.client.subscribe({ topics, fromBeginning: true })
  await consumer.client.run({
    autoCommit: consumer.autoCommit,
    eachBatch: async ({ batch }) => {
      for (const message of batch.messages) {
        const headers = Object.entries(message.headers || {}).flatMap(([key, value]) =>
          [].concat(value).map(each => [key, textOf(each)])
        )
        consumer.records.push({
          partition: batch.partition, offset: Number(message.offset), key: textOf(message.key),
          value: textOf(message.value), headers, timestamp: Number(message.timestamp),
          timestamp_type: message.batchContext ? message.batchContext.timestampType : null,
        })
      }
    },
  })
}

async function assign({ name, topic, partition, offset }) {
  const consumer = consumers.get(name)
  await subscribe({ name, topics: [topic] })
  consumer.client.seek({ topic, partition, offset: String(offset) })
  await consumer.joined
}

async function poll({ name, timeout_ms }) {
  const consumer = consumers.get(name)
  for (const end = Date.now() + timeout_ms; consumer.records.length === 0 && Date.now() < end; ) await wait(10)
  if (consumer.failure) {
    const failure = consumer.failure
    need(failure.name !== 'KafkaJSNotImplemented', failure.message)
    throw failure
  }
  return { records: consumer.records.splice(0), assignment: consumer.held }
}

async function closeConsumer({ name }) {
  const consumer = consumers.get(name)
  consumers.delete(name)
  await consumer.client.disconnect()
}

async function reset() {
  for (const name of [...consumers.keys()]) await closeConsumer({ name })
  for (const { client } of producers.values()) await client.disconnect()
  producers.clear()
}

async function committed(groupId, topic, partition) {
  const [found] = await (await admin()).fetchOffsets({ groupId, topics: [topic] })
  const offset = Number(found.partitions.find(each => each.partition === partition).offset)
  return offset < 0 ? null : offset
}

async function ends({ topic, partition }) {
  const found = (await (await admin()).fetchTopicOffsets(topic)).find(each => each.partition === partition)
  return [Number(found.low), Number(found.high)]
}

async function end(name, how) {
  const producer = producers.get(name)
  await producer.transaction[how]()
  producer.transaction = null
}

const calls = {
  producer_open: openProducer,
  send,
  init_transactions: async ({ name }) => {
    // the producer id is taken by the first transaction
    const producer = producers.get(name)
    producer.transaction = await producer.client.transaction()
    await end(name, 'abort')
  },
  begin: async ({ name }) => {
    producers.get(name).transaction = await producers.get(name).client.transaction()
  },
  commit: ({ name }) => end(name, 'commit'),
  abort: ({ name }) => end(name, 'abort'),
  send_offsets: ({ name, group, topic, partition, offset }) =>
    producers.get(name).transaction.sendOffsets({
      consumerGroupId: group, topics: [{ topic, partitions: [{ partition, offset: String(offset) }] }],
    }),
  consumer_open: openConsumer,
  assign,
  subscribe,
  poll,
  commit_offset: ({ name, topic, partition, offset }) =>
    consumers.get(name).client.commitOffsets([{ topic, partition, offset: String(offset) }]),
  committed: ({ name, topic, partition }) => committed(consumers.get(name).group, topic, partition),
  group_offsets: ({ group, topic, partition }) => committed(group, topic, partition),
  offset_for_time: async ({ topic, partition, timestamp }) => {
    const found = await (await admin()).fetchTopicOffsetsByTimestamp(topic, timestamp)
    const offset = Number(found.find(each => each.partition === partition).offset)
    const [, next] = await ends({ topic, partition })
    return offset === next ? null : offset // kafkajs answers the end when no record is as late
  },
  end_offsets: ends,
  list_offsets: async given => {
    const [earliest, latest] = await ends(given)
    return { earliest, latest }
  },
  consumer_close: closeConsumer,
  reset,
  describe_cluster: async () => (await (await admin()).describeCluster()).brokers.map(each => each.nodeId),
  create_topic: async ({ topic, partitions, replication, config }) => {
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
    const made = { topic, numPartitions: partitions, replicationFactor: replication, configEntries }
    // kafkajs answers false, and no error, for a topic that is there
    if (!(await (await admin()).createTopics({ topics: [made] }))) throw new Error(`topic ${topic} exists already (false)`)
  },
  delete_topic: async ({ topic }) => (await admin()).deleteTopics({ topics: [topic] }),
  list_topics: async () => (await admin()).listTopics(),
  describe_topic: async ({ topic }) => {
    const { topics } = await (await admin()).fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.map(each => ({ replicas: each.replicas }))
  },
  create_partitions: async ({ topic, total }) => {
    await (await admin()).createPartitions({ topicPartitions: [{ topic, count: total }] })
  },
  describe_configs: async ({ kind, name }) => {
    const type = kind === 'topic' ? ConfigResourceTypes.TOPIC : ConfigResourceTypes.BROKER
    const { resources } = await (await admin()).describeConfigs({ includeSynonyms: false, resources: [{ type, name }] })
    return Object.fromEntries(resources[0].configEntries.map(each => [each.configName, each.configValue]))
  },
  alter_configs: async ({ topic, config, incremental }) => {
    need(!incremental, 'no method for IncrementalAlterConfigs')
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }]
    await (await admin()).alterConfigs({ validateOnly: false, resources })
  },
  list_groups: async () => (await (await admin()).listGroups()).groups.map(each => each.groupId),
  describe_group: async ({ group }) => {
    const { groups } = await (await admin()).describeGroups([group])
    return { state: groups[0].state, members: groups[0].members.length }
  },
  alter_group_offsets: async ({ group, topic, partition, offset }) => {
    await (await admin()).setOffsets({ groupId: group, topic, partitions: [{ partition, offset: String(offset) }] })
  },
  delete_group: async ({ group }) => {
    await (await admin()).deleteGroups([group])
  },
  delete_records: async ({ topic, partition, offset }) => {
    await ends({ topic, partition }) // deleteTopicRecords looks for the leader in metadata that it does not ask for
    await (await admin()).deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] })
  },
  reassign: async ({ topic, partition, replicas }) => {
    const topics = [{ topic, partitionAssignment: [{ partition, replicas }] }]
    await (await admin()).alterPartitionReassignments({ topics })
  },
  acls: async () => {
    const found = await (await admin()).describeAcls({
      resourceType: AclResourceTypes.ANY, resourcePatternType: ResourcePatternTypes.ANY,
      operation: AclOperationTypes.ANY, permissionType: AclPermissionTypes.ANY,
    })
    return found.resources.length
  },
}

function described(error) {
  const words = each => `${each.name}${each.type ? ` ${each.type}` : ''}: ${each.message}`
  const parts = [words(error)]
  for (const each of error.errors || error.groups || error.partitions || []) {
    parts.push(each.error ? words(each.error) : each.message || JSON.stringify(each))
  }
  for (let each = error.cause; each && parts.length < 5; each = each.cause) parts.push(words(each))
  return parts.join('; ')
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { call, ...given } = JSON.parse(line)
    let answer
    try {
      need(call in calls, `kafkajs has no call for it (${call})`)
      const result = await calls[call](given)
      answer = { result: result === undefined ? null : result }
    } catch (error) {
      answer = error instanceof Unsupported ? { unsupported: error.message } : { error: described(error) }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
  process.exit(0)
}

main()
