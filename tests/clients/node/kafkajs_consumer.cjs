/**
 * A consumer of kafkajs, classic protocol only.
 *
 * kafkajs calls its round robin `RoundRobinAssigner`; with another --assignor the same one goes by
 * that name, so that it finds a protocol in common with other clients. It has no revoke callback:
 * it commits after each batch and says `rebalancing` before it joins again.
 */
'use strict'

const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')
const { Owned, closeWhenAsked, committed, consumed, options, security, troubled } = require('./reports.cjs')

const wanted = options()
const kafka = new Kafka({
  ...security(wanted.security),
  brokers: wanted.bootstrap.split(','),
  clientId: wanted['client-id'],
  logLevel: logLevel.WARN,
  logCreator: () => ({ log }) => troubled('log', log.message + (log.error ? `: ${log.error}` : '')),
})
const consumer = kafka.consumer({
  groupId: wanted.group,
  sessionTimeout: Number(wanted['session-timeout-ms']),
  rebalanceTimeout: 20000,
  heartbeatInterval: 500,
  maxWaitTimeInMs: 250,
  partitionAssigners: [
    (config) => ({ ...PartitionAssigners.roundRobin(config), name: wanted.assignor }),
  ],
})

const owned = new Owned()
consumer.on(consumer.events.REBALANCING, () => owned.giveUp('revoked'))
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  owned.giveUp('lost') // without `rebalancing` before it, the member had been thrown out
  owned.become(payload.memberAssignment[wanted.topic] ?? [])
})
consumer.on(consumer.events.COMMIT_OFFSETS, ({ payload }) => {
  const partitions = payload.topics.flatMap((topic) => topic.partitions)
  committed(partitions.map((each) => [Number(each.partition), Number(each.offset)]))
})
consumer.on(consumer.events.CRASH, ({ payload }) => {
  troubled('consume', payload.error)
  // kafkajs gives up where no broker answers while it looks for its coordinator. A supervisor starts it again.
  if (!payload.restart) process.exit(1)
})

closeWhenAsked(() => consumer.disconnect())

async function main() {
  await consumer.connect()
  await consumer.subscribe({ topic: wanted.topic, fromBeginning: true })
  await consumer.run({
    eachBatch: async ({ batch }) => {
      consumed(batch.partition, batch.messages.map((message) => Number(message.value)))
    },
  })
}

main().catch((error) => {
  troubled('start', error)
  process.exit(1)
})
