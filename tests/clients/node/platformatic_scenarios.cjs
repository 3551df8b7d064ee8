/** What @platformatic/kafka's own tests try with a broker; its npm package has none: platformatic_scenarios.cjs BOOTSTRAP */
'use strict'

const assert = require('node:assert')
const { Admin, Consumer, MessagesStreamFallbackModes, MessagesStreamModes, Producer, ProduceAcks, stringDeserializers, stringSerializers } = require('@platformatic/kafka')
const { play, refused, until } = require('./scenarios.cjs')

const [bootstrap] = process.argv.slice(2)
const FRESH = { producerId: -1n, producerEpoch: -1 } // see platformatic_producer.cjs
let numbers = 0
const values = (count) => [...Array(count).keys()]
const sorted = (seen) => [...seen].sort((a, b) => a - b)

/** A topic of two partitions, and a group. */
class Stage {
  constructor() {
    this.topic = `platformatic-${process.pid}-${++numbers}`
    this.group = `group-${this.topic}`
    this.common = { clientId: 'scenarios', bootstrapBrokers: [bootstrap], retryDelay: 200, metadataMaxAge: 500 }
    this.opened = []
  }

  async begin() {
    this.admin = this.open(new Admin(this.common))
    await this.admin.createTopics({ topics: [this.topic], partitions: 2, replicas: 1 })
    await until(() => this.admin.metadata({ topics: [this.topic], forceUpdate: true }).then(
      ({ topics }) => topics.get(this.topic)?.partitions.length === 2, () => false))
  }

  open(client) {
    this.opened.push(client)
    return client
  }

  producer(options) {
    return this.open(new Producer({ ...this.common, serializers: stringSerializers, ...options }))
  }

  /** Write numbers, in turn to each partition. */
  send(count = 10, options = {}) {
    const messages = values(count).map((number) => ({ topic: this.topic, value: `${number}`, partition: number % 2 }))
    return this.producer(options).send({ messages, acks: ProduceAcks.ALL })
  }

  consumer(options) {
    return this.open(new Consumer({
      ...this.common, groupId: this.group, deserializers: stringDeserializers,
      heartbeatInterval: 300, sessionTimeout: 6000, maxWaitTime: 100, ...options,
    }))
  }

  /** A member that takes what it reads to `seen`. */
  async member({ stream = {}, topics = [this.topic], ...options } = {}) {
    const consumer = this.consumer(options)
    consumer.seen = []
    consumer.owned = () => (consumer.assignments ?? []).flatMap(({ partitions }) => partitions).length
    consumer.stream = await consumer.consume({
      topics, mode: MessagesStreamModes.COMMITTED, fallbackMode: MessagesStreamFallbackModes.EARLIEST,
      autocommit: false, ...stream,
    })
    consumer.stream.on('error', () => {})
    consumer.stream.on('data', (message) => consumer.seen.push(message))
    return consumer
  }

  async offsets() {
    const [group] = await this.admin.listConsumerGroupOffsets({ groups: [this.group] })
    const partitions = group.topics.find(({ name }) => name === this.topic)?.partitions ?? []
    return Object.fromEntries(partitions.map((one) => [one.partitionIndex, Number(one.committedOffset)]))
  }

  async close() {
    for (const client of this.opened.reverse()) {
      await client.stream?.close()
      await client.close(true)
    }
  }
}

const read = (member, count) => until(() => member.seen.length >= count)
const numbersOf = (member) => sorted(member.seen.map(({ value }) => Number(value)))

const scenarios = [
  async function a_group_reads_everything(stage) {
    await stage.send()
    const member = await stage.member()
    await read(member, 10)
    assert.deepStrictEqual(numbersOf(member), values(10))
  },
  async function positions_are_committed_in_the_background(stage) {
    await stage.send()
    await read(await stage.member({ stream: { autocommit: 100 } }), 10)
    await until(async () => JSON.stringify(await stage.offsets()) === '{"0":5,"1":5}')
  },
  async function positions_are_committed_by_hand(stage) {
    await stage.send()
    const member = await stage.member()
    await read(member, 10)
    await member.commit({ offsets: [{ topic: stage.topic, partition: 0, offset: 3n, leaderEpoch: 0 }] })
    const committed = await member.listCommittedOffsets({ topics: [{ topic: stage.topic, partitions: [0] }] })
    assert.deepStrictEqual(committed.get(stage.topic), [3n])
  },
  async function messages_are_committed(stage) {
    await stage.send()
    const member = await stage.member()
    await read(member, 10)
    for (const message of member.seen) await message.commit()
    const offsets = await stage.offsets()
    assert.strictEqual(Object.keys(offsets).length, 2)
  },
  async function a_consumer_goes_on_where_another_has_committed(stage) {
    await stage.send()
    const first = await stage.member({ stream: { autocommit: 100 } })
    await read(first, 10)
    await until(async () => JSON.stringify(await stage.offsets()) === '{"0":5,"1":5}')
    await first.stream.close()
    await first.close(true)
    await stage.send()
    const second = await stage.member()
    await read(second, 10)
    assert.deepStrictEqual(numbersOf(second), values(10))
  },
  async function two_members_share_the_partitions(stage) {
    const first = await stage.member()
    const second = await stage.member()
    await until(() => first.owned() === 1 && second.owned() === 1)
    await second.stream.close()
    await second.close(true)
    await until(() => first.owned() === 2)
  },
  async function a_third_member_of_two_partitions_has_none(stage) {
    const members = [await stage.member(), await stage.member(), await stage.member()]
    await until(() => `${sorted(members.map((one) => one.owned()))}` === '0,1,1')
  },
  async function a_static_member(stage) {
    const member = await stage.member({ groupInstanceId: 'first' })
    await until(() => member.owned() === 2)
    const group = (await stage.admin.describeGroups({ groups: [stage.group] })).get(stage.group)
    assert.strictEqual([...group.members.values()][0].groupInstanceId, 'first')
  },
  async function a_group_begins_at_the_end(stage) {
    await stage.send()
    const member = await stage.member({ stream: { fallbackMode: MessagesStreamFallbackModes.LATEST } })
    await until(() => member.owned() === 2)
    const producer = stage.producer()
    await until(async () => {
      await producer.send({ messages: [{ topic: stage.topic, value: '77' }] })
      return member.seen.length
    })
    assert.deepStrictEqual([...new Set(numbersOf(member))], [77])
  },
  async function a_stream_begins_at_chosen_offsets(stage) {
    await stage.send()
    const offsets = [{ topic: stage.topic, partition: 0, offset: 3n }, { topic: stage.topic, partition: 1, offset: 4n }]
    const member = await stage.member({ stream: { mode: MessagesStreamModes.MANUAL, offsets } })
    await read(member, 3)
    assert.deepStrictEqual(numbersOf(member), [6, 8, 9])
  },
  async function several_topics_are_subscribed(stage) {
    const other = `${stage.topic}-other`
    await stage.admin.createTopics({ topics: [other], partitions: 2, replicas: 1 })
    const member = await stage.member({ topics: [stage.topic, other] })
    await until(() => member.owned() === 4)
  },
  async function the_lag_of_a_group(stage) {
    await stage.send()
    const member = await stage.member()
    await read(member, 10)
    for (const partition of [0, 1]) {
      await member.commit({ offsets: [{ topic: stage.topic, partition, offset: 2n, leaderEpoch: 0 }] })
    }
    const lag = await member.getLag({ topics: [stage.topic] })
    assert.deepStrictEqual(lag.get(stage.topic), [3n, 3n])
  },
  async function first_and_last_offsets(stage) {
    await stage.send()
    const consumer = stage.consumer()
    assert.deepStrictEqual((await consumer.listOffsets({ topics: [stage.topic] })).get(stage.topic), [5n, 5n])
    assert.deepStrictEqual((await consumer.listOffsets({ topics: [stage.topic], timestamp: -2n })).get(stage.topic), [0n, 0n])
  },
  async function records_have_keys_headers_and_times(stage) {
    const producer = stage.producer()
    const timestamp = BigInt(Date.now() - 1000) // brokers delete old records
    const message = { topic: stage.topic, key: 'key', value: '1', partition: 0, timestamp, headers: { h: 'x' } }
    const { offsets } = await producer.send({ messages: [message] })
    assert.strictEqual(offsets[0].offset, 0n)
    const member = await stage.member()
    await read(member, 1)
    const [got] = member.seen
    assert.deepStrictEqual([got.key, got.timestamp, got.headers.get('h')], ['key', timestamp, 'x'])
  },
  async function every_codec(stage) {
    for (const compression of ['gzip', 'snappy', 'lz4']) await stage.send(10, { compression })
    await read(await stage.member(), 30)
  },
  async function every_kind_of_acknowledgement(stage) {
    const producer = stage.producer()
    // With LEADER first: no answer says that a broker does not lead the new partition yet.
    for (const acks of [ProduceAcks.LEADER, ProduceAcks.NO_RESPONSE, ProduceAcks.ALL]) {
      await producer.send({ messages: [{ topic: stage.topic, value: '1', partition: 0 }], acks })
    }
    await read(await stage.member(), 3)
  },
  async function an_idempotent_producer(stage) {
    await stage.send(100, { idempotent: true })
    await read(await stage.member(), 100)
  },
  async function a_topic_that_is_missing(stage) {
    const producer = stage.producer({ retries: 0, autocreateTopics: false })
    await refused(producer.send({ messages: [{ topic: 'no topic:?', value: '1' }] }))
  },
  async function a_transaction_is_committed(stage) {
    const producer = stage.producer({ idempotent: true, transactionalId: stage.group })
    const transaction = await producer.beginTransaction(FRESH)
    await transaction.send({ messages: [{ topic: stage.topic, value: '1', partition: 0 }, { topic: stage.topic, value: '2', partition: 1 }] })
    await transaction.commit()
    const member = await stage.member({ stream: { isolationLevel: 1 } })
    await read(member, 2)
    assert.deepStrictEqual(numbersOf(member), [1, 2])
  },
  async function a_transaction_is_aborted(stage) {
    const producer = stage.producer({ idempotent: true, transactionalId: stage.group })
    const aborted = await producer.beginTransaction(FRESH)
    await aborted.send({ messages: [{ topic: stage.topic, value: '1', partition: 0 }] })
    await aborted.abort()
    const committed = await producer.beginTransaction()
    await committed.send({ messages: [{ topic: stage.topic, value: '2', partition: 0 }] })
    await committed.commit()
    const member = await stage.member({ stream: { isolationLevel: 1 } })
    await read(member, 1)
    assert.deepStrictEqual(numbersOf(member), [2])
  },
  async function offsets_are_committed_in_a_transaction(stage) {
    await stage.send()
    const member = await stage.member()
    await read(member, 10)
    const producer = stage.producer({ idempotent: true, transactionalId: stage.group })
    const transaction = await producer.beginTransaction(FRESH)
    await transaction.addConsumer(member)
    for (const message of member.seen) await transaction.addOffset(message)
    await transaction.commit()
    await until(async () => Object.keys(await stage.offsets()).length === 2)
  },
  async function topics_are_made_and_deleted({ admin, topic }) {
    const name = `${topic}-made`
    const [made] = await admin.createTopics({ topics: [name], partitions: 1, replicas: 1 })
    assert.strictEqual(made.name, name)
    await refused(admin.createTopics({ topics: [name], partitions: 1, replicas: 1 }))
    await until(async () => (await admin.listTopics()).includes(name))
    await admin.deleteTopics({ topics: [name] })
    await until(async () => !(await admin.listTopics()).includes(name))
  },
  async function partitions_are_added_to_a_topic({ admin, topic }) {
    await admin.createPartitions({ topics: [{ name: topic, count: 4, assignments: [] }] }).catch(
      () => admin.createPartitions({ topics: [{ name: topic, count: 4 }] }))
    await until(async () => (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic).partitions.length === 4)
  },
  async function groups_are_listed_and_described(stage) {
    const member = await stage.member()
    await until(() => member.owned() === 2)
    const listed = await stage.admin.listGroups()
    assert.deepStrictEqual([listed.get(stage.group).state, listed.get(stage.group).protocolType], ['Stable', 'consumer'])
    const group = (await stage.admin.describeGroups({ groups: [stage.group] })).get(stage.group)
    assert.deepStrictEqual([group.state.toUpperCase(), group.members.size], ['STABLE', 1])
  },
  async function a_coordinator_is_found({ admin, group }) {
    const [found] = await admin.findCoordinator({ keyType: 0, keys: [group] })
    assert.strictEqual(found.key, group)
  },
  async function the_offsets_of_a_group_are_set_and_deleted(stage) {
    await stage.send()
    const topics = [{ name: stage.topic, partitionOffsets: [{ partition: 0, offset: 2n }, { partition: 1, offset: 3n }] }]
    await stage.admin.alterConsumerGroupOffsets({ groupId: stage.group, topics })
    assert.deepStrictEqual(await stage.offsets(), { 0: 2, 1: 3 })
    await stage.admin.deleteConsumerGroupOffsets({ groupId: stage.group, topics: [{ name: stage.topic, partitionIndexes: [0] }] })
    const left = await stage.offsets()
    assert.deepStrictEqual([left[0] ?? -1, left[1]], [-1, 3])
  },
  async function a_group_is_deleted(stage) {
    await stage.send()
    const member = await stage.member({ stream: { autocommit: 100 } })
    await read(member, 10)
    await refused(stage.admin.deleteGroups({ groups: [stage.group] }))
    await member.stream.close()
    await member.close(true)
    await stage.admin.deleteGroups({ groups: [stage.group] })
    assert(!(await stage.admin.listGroups()).has(stage.group))
  },
  async function a_member_is_removed(stage) {
    const member = await stage.member({ groupInstanceId: 'first' })
    await until(() => member.owned() === 2)
    const before = member.memberId
    await stage.admin.removeMembersFromConsumerGroup({ groupId: stage.group, members: [{ memberId: before }] })
    const group = (await stage.admin.describeGroups({ groups: [stage.group] })).get(stage.group)
    assert(!group.members.has(before))
  },
  async function configs_are_changed({ admin, topic }) {
    const resource = { resourceType: 2, resourceName: topic }
    await admin.incrementalAlterConfigs({ resources: [{ ...resource, configs: [{ name: 'retention.ms', configOperation: 0, value: '123456' }] }] })
    await until(async () => {
      const [{ configs }] = await admin.describeConfigs({ resources: [{ ...resource, configurationKeys: ['retention.ms'] }] })
      return configs[0].value === '123456'
    })
  },
  async function records_are_deleted(stage) {
    await stage.send()
    const topics = [{ name: stage.topic, partitions: [{ partition: 0, offset: 3n }] }]
    const [deleted] = await stage.admin.deleteRecords({ topics })
    assert.strictEqual(deleted.partitions[0].lowWatermark, 3n)
  },
  async function log_folders_are_described({ admin, topic }) {
    const described = await admin.describeLogDirs({ topics: [{ name: topic, partitions: [0, 1] }] })
    assert(described.length)
  },
  async function permissions_are_made_and_deleted({ admin, topic }) {
    const acl = { resourceType: 2, resourceName: topic, resourcePatternType: 3, principal: 'User:somebody', host: '*', operation: 3, permissionType: 3 }
    await admin.createAcls({ creations: [acl] })
    const filter = { ...acl }
    await until(async () => (await admin.describeAcls({ filter })).length === 1)
    await admin.deleteAcls({ filters: [filter] })
    await until(async () => (await admin.describeAcls({ filter })).length === 0)
  },
]

play('platformatic_scenarios.cjs', scenarios, () => new Stage())
