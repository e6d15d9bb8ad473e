// A client of the harness over kafkajs. It speaks docs/reference/client-protocol.md.
//
// kafkajs gives records to a handler as they come: batches, or one after the other. A poll takes what the handler holds,
// and only then the handler goes on.
'use strict'

const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')
const { version } = require('kafkajs/package.json')
const { PROPERTIES, ROLES, atMost, bytes, codeOf, headersFor, noting, recordsOf, refuse, settingsOf } = require('./kafka.js')

const now = () => Number(process.hrtime.bigint() / 1000n)
const say = (event, more) => process.stdout.write(JSON.stringify({ event, at_us: now(), ...more }) + '\n')
const wait = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))
const within = (promise, timeout) => Promise.race([promise, wait(timeout)])
const inTime = (promise, timeout) => Promise.race([promise, wait(timeout).then(() => refuse('not done in the time of the command'))])
const listed = topics => Object.entries(topics).flatMap(([topic, all]) => all.map(partition => ({ topic, partition })))

let settings, producer, consumer, transaction, failedCodes, held, paused, queue, sending, isOneByOne, isEnding
const gathered = new Map() // topic -> messages that wait for a send
const open = new Map() // seq -> sent_us, of records without an outcome
const waiting = new Map() // id of a poll that waits -> its end

function outcome(event, seqs, more = () => ({}), rest = {}) {
  const records = seqs.filter(seq => open.has(seq)).map(seq => ({ seq, sent_us: open.get(seq), ...more(seq) }))
  records.forEach(({ seq }) => open.delete(seq))
  if (records.length) say(event, { records, ...rest })
}

// A send of kafkajs is a request for each broker. What comes while some are under way waits for the next one.
function produce({ topic, records }) {
  if (!gathered.has(topic)) gathered.set(topic, [])
  for (const { seq, key, value, partition, headers } of records) {
    open.set(seq, now())
    gathered.get(topic).push({ seq, key: bytes(key), value: bytes(value), partition, headers: headersFor(headers) })
  }
  sendMore()
}

function sendMore() {
  for (const [topic, messages] of gathered) {
    while (messages.length && sending < settings.maxInFlightRequests) {
      sending += 1
      send(topic, messages.splice(0, atMost(messages, 500_000))).finally(() => { sending -= 1; sendMore() })
    }
  }
}

async function send(topic, messages) {
  const seqs = messages.map(({ seq }) => seq)
  try {
    const { acks, compression } = settings
    const found = await (transaction || producer).send({ topic, acks, compression, messages })
    const next = new Map((acks === 0 ? [] : found).map(each => [each.partition, Number(each.baseOffset)]))
    const place = new Map()
    for (const { seq, chosen } of messages) {
      if (!next.has(chosen)) continue
      place.set(seq, { partition: chosen, offset: next.get(chosen) })
      next.set(chosen, next.get(chosen) + 1)
    }
    outcome('acknowledged', [...place.keys()], seq => place.get(seq))
    const reason = acks === 0 ? undefined : 'send() is done, and its result does not name the partition of this record'
    outcome('unknown', seqs, undefined, { code: 0, reason })
  } catch (error) {
    // The error is that of one partition; of a single record, the code says what became of it.
    const code = codeOf(error)
    outcome(seqs.length === 1 && failedCodes.has(code) ? 'failed' : 'unknown', seqs, undefined, { code, reason: error.message })
  }
}

async function hold({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
  const { topic, partition } = batch
  const mine = { key: `${topic}-${partition}`, given: [], resolveOffset, records: recordsOf(batch) }
  queue.push(mine)
  try {
    while (mine.records.length + mine.given.length && isRunning() && !isStale() && !paused.has(mine.key)) {
      await heartbeat()
      await wait(2)
    }
    if (!isStale()) settle(mine)
  } finally {
    queue = queue.filter(each => each !== mine)
  }
}

// The record is done with when this returns. It is not if an error is thrown, which kafkajs takes as a wish to get it again.
async function holdOne({ topic, partition, message, heartbeat }) {
  const mine = { key: `${topic}-${partition}`, given: [], resolveOffset: () => {}, records: recordsOf({ topic, partition, messages: [message] }) }
  queue.push(mine)
  try {
    while (mine.records.length + mine.given.length) {
      if ((isEnding || paused.has(mine.key)) && mine.records.length) throw new Error('nobody took this record')
      if (isEnding) return
      if (heartbeat) await heartbeat() // versions before 1.16 have none here
      await wait(2)
    }
  } finally {
    queue = queue.filter(each => each !== mine)
  }
}

function settle(mine) { // what an earlier poll gave is done with: kafkajs may commit it
  for (const offset of mine.given.splice(0)) mine.resolveOffset(String(offset))
}

async function poll({ id, timeout_ms, max_records }) {
  queue.forEach(settle)
  const records = []
  let isOver = false
  waiting.set(id, () => (isOver = true))
  for (const end = Date.now() + timeout_ms; ; await wait(2)) {
    for (const mine of queue.filter(each => !paused.has(each.key))) {
      const taken = mine.records.splice(0, (isOneByOne ? 1 : max_records) - records.length)
      mine.given.push(...taken.map(({ offset }) => offset))
      records.push(...taken)
    }
    if (records.length || isOver || Date.now() >= end) break
  }
  waiting.delete(id)
  say('polled', { id, records })
}

const commands = {
  async connect({ role, properties, failed_codes = [], one_by_one = false }) {
    settings = settingsOf(role, properties)
    const { brokers, clientId, requestTimeout, retries } = settings
    const kafka = new Kafka({ brokers, clientId, requestTimeout, retry: { retries }, logLevel: logLevel.NOTHING })
    failedCodes = new Set(failed_codes)
    held = []; paused = new Set(); queue = []; transaction = null; sending = 0; gathered.clear()
    isOneByOne = one_by_one
    isEnding = false
    if (ROLES[role].includes('producer')) {
      producer = kafka.producer({ ...settings, createPartitioner: noting, allowAutoTopicCreation: false,
        idempotent: settings.idempotent || Boolean(settings.transactionalId), retry: { retries } })
      await producer.connect()
    }
    if (ROLES[role].includes('consumer')) {
      if (!settings.groupId) refuse('kafkajs reads in a group only', 'group.id')
      consumer = kafka.consumer({ maxWaitTimeInMs: 100, ...settings, allowAutoTopicCreation: false, retry: { retries } })
      const { REBALANCING } = consumer.events // versions before 1.16 tell of a rebalance only when they have joined again
      if (REBALANCING) consumer.on(REBALANCING, () => say('revoked', { partitions: held.splice(0) }))
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
        if (held.length) say('revoked', { partitions: held.splice(0) })
        held = listed(payload.memberAssignment)
        say('assigned', { partitions: held })
      })
      consumer.on(consumer.events.CRASH, ({ payload }) => say('error', { reason: payload.error.message, code: codeOf(payload.error) }))
      await consumer.connect()
    }
  },
  flush: ({ timeout_ms }) => within(drained(timeout_ms), timeout_ms).then(() => open.size && refuse(`${open.size} records have no outcome`)),
  async subscribe({ topics }) {
    isEnding = true
    await consumer.stop()
    isEnding = false
    const { fromBeginning } = settings
    for (const topic of topics) await consumer.subscribe({ topic, fromBeginning }) // before version 2 it takes one only
    const { autoCommit, autoCommitInterval } = settings
    const handler = isOneByOne ? { eachMessage: holdOne } : { eachBatchAutoResolve: false, partitionsConsumedConcurrently: 100, eachBatch: hold }
    await consumer.run({ autoCommit, autoCommitInterval, ...handler })
  },
  pause({ partitions }) {
    for (const { topic, partition } of partitions) paused.add(`${topic}-${partition}`)
    consumer.pause(partitions.map(({ topic, partition }) => ({ topic, partitions: [partition] })))
  },
  resume({ partitions }) {
    for (const { topic, partition } of partitions) paused.delete(`${topic}-${partition}`)
    consumer.resume(partitions.map(({ topic, partition }) => ({ topic, partitions: [partition] })))
  },
  seek({ partitions }) {
    for (const { topic, partition, offset } of partitions) {
      for (const mine of queue) if (mine.key === `${topic}-${partition}`) mine.records = mine.given = []
      consumer.seek({ topic, partition, offset: String(offset) })
    }
  },
  async commit({ id, partitions }) {
    await consumer.commitOffsets(partitions.map(each => ({ ...each, offset: String(each.offset) })))
    say('committed', { id, partitions })
  },
  begin: async ({ timeout_ms }) => (transaction = await inTime(producer.transaction(), timeout_ms)),
  'send-offsets': ({ partitions }) => transaction.sendOffsets({ consumerGroupId: settings.groupId, topics: partitions.map(
    ({ topic, partition, offset }) => ({ topic, partitions: [{ partition, offset: String(offset) }] })) }),
  // kafkajs ends a transaction without those records whose send has not begun, so they are waited for.
  'commit-transaction': ({ timeout_ms }) => inTime(drained(timeout_ms).then(() => transaction.commit()), timeout_ms).finally(() => (transaction = null)),
  'abort-transaction': ({ timeout_ms }) => inTime(drained(timeout_ms).then(() => transaction.abort()), timeout_ms).finally(() => (transaction = null)),
  cancel: ({ command }) => waiting.has(command) && waiting.get(command)(),
  async close({ timeout_ms }) {
    for (const end of waiting.values()) end()
    const end = Date.now() + timeout_ms
    await drained(timeout_ms)
    isEnding = true
    const closing = [producer, consumer].filter(Boolean).map(each => each.disconnect())
    await within(Promise.allSettled(closing), Math.max(end - Date.now(), 100))
    outcome('unknown', [...open.keys()], undefined, { code: -1, reason: 'closed before an answer came' })
    producer = consumer = null
  },
}

async function drained(timeout) {
  for (const end = Date.now() + timeout; open.size && Date.now() < end; ) await wait(2)
}

async function carryOut({ do: name, ...given }) {
  try {
    if (!(name in commands)) refuse(`no such command: ${name}`)
    await commands[name](given)
    if (name !== 'commit') say('done', { id: given.id })
  } catch (error) {
    say('error', { id: given.id, reason: error.message, code: codeOf(error), property: error.property })
  }
}

say('ready', {
  protocol: 1, client: 'kafkajs', version, can: ['produce', 'partition', 'headers', 'subscribe', 'seek', 'pause', 'commit', 'one-by-one',
    'transactions', 'send-offsets', 'overlap', 'cancel'],
  properties: { producer: Object.keys(PROPERTIES.producer), consumer: Object.keys(PROPERTIES.consumer) },
  lacks: { assign: 'kafkajs reads in a group only' },
})
let last = Promise.resolve() // commands are done one after the other; polls wait beside them
const lines = readline.createInterface({ input: process.stdin })
lines.on('line', line => {
  const command = JSON.parse(line)
  if (command.do === 'poll') last.then(() => poll(command))
  else if (command.do === 'produce') last.then(() => { produce(command) })
  else if (command.do === 'cancel') carryOut(command)
  else last = last.then(() => carryOut(command))
})
lines.on('close', () => process.exit(0))
