// What kafkajs calls by other names: properties, errors, partitions of records, headers.
'use strict'

const { CompressionTypes, Partitioners } = require('kafkajs')

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

module.exports = { PROPERTIES, bytes, codeOf, headersOf, noting, refuse, text }
