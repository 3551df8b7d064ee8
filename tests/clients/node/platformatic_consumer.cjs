/**
 * A consumer of @platformatic/kafka, of either group protocol.
 *
 * It has no assign and revoke callbacks, so ownership is read where the client itself keeps it:
 * whatever is put into its field `assignments`. A classic member gives everything up when it
 * joins again, which it announces as `consumer:group:rebalance`.
 */
'use strict'

const { Consumer, MessagesStreamFallbackModes, MessagesStreamModes } = require('@platformatic/kafka')
const { Owned, closeWhenAsked, committed, consumed, options, troubled } = require('./reports.cjs')

const wanted = options()
const isClassic = wanted.protocol === 'classic'
const consumer = new Consumer({
  bootstrapBrokers: wanted.bootstrap.split(','),
  clientId: wanted['client-id'],
  groupId: wanted.group,
  groupProtocol: wanted.protocol,
  protocols: [{ name: wanted.assignor, version: 1 }],
  sessionTimeout: Number(wanted['session-timeout-ms']),
  rebalanceTimeout: 20000,
  heartbeatInterval: 500,
  maxWaitTime: 250,
  retries: 10,
  retryDelay: 200,
})

const owned = new Owned()
let assignments = null
Object.defineProperty(consumer, 'assignments', {
  get: () => assignments,
  set: (value) => {
    assignments = value
    const mine = (value ?? []).filter(({ topic }) => topic === wanted.topic)
    owned.become(mine.flatMap(({ partitions }) => partitions))
  },
})
if (isClassic) {
  consumer.on('consumer:group:rebalance', () => owned.giveUp('revoked'))
}
consumer.on('consumer:heartbeat:error', ({ error }) => troubled('heartbeat', error))

let stream = null
closeWhenAsked(async () => {
  await stream?.close() // first, because a closed consumer does not commit what its streams read
  await consumer.close(true)
})

async function consume() {
  stream = await consumer.consume({
    topics: [wanted.topic],
    mode: MessagesStreamModes.COMMITTED,
    fallbackMode: MessagesStreamFallbackModes.EARLIEST,
    autocommit: 200,
    maxWaitTime: 250,
  })
  stream.on('autocommit', (error, offsets) => {
    if (error) troubled('commit', error)
    else committed(offsets.map((each) => [each.partition, Number(each.offset)]))
  })
  stream.on('data', (message) => consumed(message.partition, [Number(message.value.toString())]))
  // A commit that came too late for its generation ends the stream, not the consumer.
  stream.on('error', (error) => {
    troubled('consume', error)
    if (!consumer.closed) consume().catch(fail)
  })
}

function fail(error) {
  troubled('start', error)
  process.exit(1)
}

consume().catch(fail)
