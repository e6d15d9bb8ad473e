// What kafkajs calls by other names: properties, errors, partitions of records, headers.
'use strict'

const { CompressionTypes, Partitioners } = require('kafkajs')

const ROLES = { producer: ['producer'], consumer: ['consumer'], copier: ['consumer', 'producer'] }

function refuse(reason, property) {
  throw Object.assign(new Error(reason), { property })
}

const asNumber = (name, text) => (/^-?\d+$/.test(text) ? Number(text) : refuse(`${text} is no number`, name))
const oneOf = known => (name, text) => (text in known ? known[text] : refuse(`${text} is not one of its values`, name))
const asIs = (_name, text) => text
const isTrue = oneOf({ true: true, false: false })
// Kafka's properties: [its name in kafkajs, how the text becomes its value]
const COMMON = {
  'bootstrap.servers': ['brokers', (_name, text) => text.split(',')], 'client.id': ['clientId', asIs],
  'request.timeout.ms': ['requestTimeout', asNumber], retries: ['retries', asNumber],
}
const PROPERTIES = {
  producer: {
    ...COMMON, acks: ['acks', oneOf({ 0: 0, 1: 1, all: -1, '-1': -1 })],
    'compression.type': ['compression', oneOf({ none: CompressionTypes.None, gzip: CompressionTypes.GZIP })],
    'enable.idempotence': ['idempotent', isTrue], 'metadata.max.age.ms': ['metadataMaxAge', asNumber],
    'max.in.flight.requests.per.connection': ['maxInFlightRequests', asNumber],
    'transactional.id': ['transactionalId', asIs], 'transaction.timeout.ms': ['transactionTimeout', asNumber],
  },
  consumer: {
    ...COMMON, 'group.id': ['groupId', asIs], 'session.timeout.ms': ['sessionTimeout', asNumber],
    'heartbeat.interval.ms': ['heartbeatInterval', asNumber], 'enable.auto.commit': ['autoCommit', isTrue],
    'auto.commit.interval.ms': ['autoCommitInterval', asNumber], 'metadata.max.age.ms': ['metadataMaxAge', asNumber],
    'auto.offset.reset': ['fromBeginning', oneOf({ earliest: true, latest: false })],
    'isolation.level': ['readUncommitted', oneOf({ read_uncommitted: true, read_committed: false })],
    'fetch.min.bytes': ['minBytes', asNumber], 'fetch.max.bytes': ['maxBytes', asNumber],
    'max.partition.fetch.bytes': ['maxBytesPerPartition', asNumber], 'fetch.max.wait.ms': ['maxWaitTimeInMs', asNumber],
  },
}

function codeOf(error) { // kafkajs wraps the error of the broker
  for (let each = error; each; each = each.cause) if (each.code > 0) return each.code
  return -1
}

// kafkajs tells the first offset in each partition, so the partition of each record is noted when it is chosen.
function noting() {
  const choose = Partitioners.DefaultPartitioner()
  return given => (given.message.chosen = choose(given))
}

const bytes = text => (text === null || text === undefined ? null : Buffer.from(text, 'base64'))
const text = content => (content === null || content === undefined ? null : content.toString('base64'))
const headersOf = headers =>
  Object.entries(headers).flatMap(([key, all]) => [].concat(all).map(value => ({ key, value: text(value) })))


function headersFor(listed = []) {
  const own = {}
  for (const { key, value } of listed) own[key] = [].concat(own[key] ?? [], bytes(value))
  return own
}

// How many of the first messages have together at most this size; at least one.
function atMost(messages, size) {
  let count = 0
  for (let left = size; count < messages.length && (count === 0 || left > 0); count++) {
    const { key, value } = messages[count]
    left -= (key ? key.length : 0) + (value ? value.length : 0) + 30
  }
  return count
}

const recordsOf = ({ topic, partition, messages }) => messages.map(each => ({
  topic, partition, offset: Number(each.offset), key: text(each.key), value: text(each.value),
  timestamp_ms: Number(each.timestamp), headers: headersOf(each.headers || {}),
}))

function settingsOf(role, properties) {
  const settings = { retries: 5, acks: -1, autoCommit: false, fromBeginning: false }
  for (const [name, value] of Object.entries(properties)) {
    const [own, convert] = (ROLES[role] || []).map(side => PROPERTIES[side][name]).find(Boolean) ||
      refuse(`kafkajs has nothing for it, or this program does not set it for a ${role}`, name)
    settings[own] = convert(name, value)
  }
  // Its documentation wants one for an idempotent or transactional producer: with more it changes the order.
  settings.maxInFlightRequests ??= settings.idempotent || settings.transactionalId ? 1 : 5
  return settings
}

module.exports = { PROPERTIES, ROLES, atMost, bytes, codeOf, headersFor, noting, recordsOf, refuse, settingsOf }
