/** What kafkajs's own tests try with a broker; its npm package has none: kafkajs_scenarios.cjs BOOTSTRAP */
'use strict'

const assert = require('node:assert')
const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, CompressionTypes, ConfigResourceTypes, Kafka, ResourcePatternTypes, logLevel } = require('kafkajs')
const { play, refused, until } = require('./scenarios.cjs')

const [bootstrap] = process.argv.slice(2)
let numbers = 0
const values = (count) => [...Array(count).keys()]
const sorted = (seen) => [...seen].sort((a, b) => a - b)

/** A topic of two partitions, and a group. */
class Stage {
  constructor() {
    this.topic = `kafkajs-${process.pid}-${++numbers}`
    this.group = `group-${this.topic}`
    this.kafka = new Kafka({ brokers: [bootstrap], clientId: 'scenarios', logLevel: logLevel.ERROR })
    this.opened = []
  }

  async begin() {
    this.admin = await this.open(this.kafka.admin())
    await this.makeTopic(this.topic)
  }

  /** kafkajs's own wait ends with an error while the broker does not know the topic yet. */
  async makeTopic(topic) {
    await this.admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: false })
    await until(() => this.admin.fetchTopicMetadata({ topics: [topic] }).then(
      ({ topics }) => topics[0].partitions.length === 2, () => false))
  }

  async open(client) {
    this.opened.push(client)
    await client.connect()
    return client
  }

  producer(options) {
    return this.open(this.kafka.producer(options))
  }

  /** Write numbers, in turn to each partition. */
  async send(count = 10, { acks, compression, ...options } = {}) {
    const producer = await this.producer(options)
    const messages = values(count).map((number) => ({ value: `${number}`, partition: number % 2 }))
    return producer.send({ topic: this.topic, messages, acks, compression })
  }

  /** A member that takes what it reads to `seen`. */
  async member({ fromBeginning = true, topics = [this.topic], run = {}, ...options } = {}) {
    const consumer = await this.open(this.kafka.consumer({
      groupId: this.group, heartbeatInterval: 300, maxWaitTimeInMs: 100, metadataMaxAge: 500, ...options,
    }))
    consumer.seen = []
    consumer.joined = []
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => consumer.joined.push(payload))
    consumer.owned = () => Object.values(consumer.joined.at(-1)?.memberAssignment ?? {}).flat().length
    await consumer.subscribe({ topics, fromBeginning })
    await consumer.run({
      eachMessage: async ({ message }) => { consumer.seen.push(Number(message.value)) },
      ...run,
    })
    return consumer
  }

  async offsets() {
    const [{ partitions }] = await this.admin.fetchOffsets({ groupId: this.group, topics: [this.topic] })
    return partitions.sort((a, b) => a.partition - b.partition).map(({ offset }) => Number(offset))
  }

  async close() {
    for (const client of this.opened.reverse()) await client.disconnect()
  }
}

const read = (member, count) => until(() => member.seen.length >= count)

const scenarios = [
  async function a_group_reads_everything(stage) {
    await stage.send()
    const member = await stage.member()
    await read(member, 10)
    assert.deepStrictEqual(sorted(member.seen), values(10))
  },
  async function a_group_reads_batches(stage) {
    await stage.send()
    const seen = []
    await stage.member({ run: { eachMessage: undefined, eachBatch: async ({ batch }) => {
      seen.push(...batch.messages.map(({ value }) => Number(value)))
    } } })
    await until(() => seen.length >= 10)
  },
  async function offsets_are_resolved_by_hand(stage) {
    await stage.send()
    await stage.member({ run: { eachMessage: undefined, eachBatchAutoResolve: false, eachBatch: async (got) => {
      got.resolveOffset(got.batch.messages[0].offset)
      await got.commitOffsetsIfNecessary()
      await got.heartbeat()
    } } })
    await until(async () => (await stage.offsets()).every((offset) => offset === 5))
  },
  async function positions_are_committed_in_the_background(stage) {
    await stage.send()
    const member = await stage.member({ run: { autoCommitThreshold: 1 } })
    await read(member, 10)
    await until(async () => (await stage.offsets()).every((offset) => offset === 5))
  },
  async function positions_are_committed_by_hand(stage) {
    await stage.send()
    const member = await stage.member({ run: { autoCommit: false } })
    await read(member, 10)
    await member.commitOffsets([{ topic: stage.topic, partition: 0, offset: '3', metadata: 'some text' }])
    const [{ partitions }] = await stage.admin.fetchOffsets({ groupId: stage.group, topics: [stage.topic] })
    const first = partitions.find(({ partition }) => partition === 0)
    assert.deepStrictEqual([first.offset, first.metadata], ['3', 'some text'])
  },
  async function a_consumer_goes_on_where_another_has_committed(stage) {
    await stage.send()
    const first = await stage.member()
    await read(first, 10)
    await first.disconnect()
    await stage.send()
    const second = await stage.member()
    await read(second, 10)
    assert.deepStrictEqual(sorted(second.seen), values(10))
  },
  async function a_group_begins_at_the_end(stage) {
    await stage.send()
    const member = await stage.member({ fromBeginning: false })
    await until(() => member.owned() === 2)
    const producer = await stage.producer()
    await until(async () => {
      await producer.send({ topic: stage.topic, messages: [{ value: '77' }] })
      return member.seen.includes(77)
    })
    assert.deepStrictEqual([...new Set(member.seen)], [77])
  },
  async function two_members_share_the_partitions(stage) {
    const first = await stage.member()
    const second = await stage.member()
    await until(() => first.owned() === 1 && second.owned() === 1)
    await second.disconnect()
    await until(() => first.owned() === 2)
  },
  async function a_third_member_of_two_partitions_has_none(stage) {
    const members = [await stage.member(), await stage.member(), await stage.member()]
    await until(() => members.every((one) => one.joined.length) && members.reduce((sum, one) => sum + one.owned(), 0) === 2)
  },
  async function several_topics_are_subscribed(stage) {
    const other = `${stage.topic}-other`
    await stage.makeTopic(other)
    const member = await stage.member({ topics: [stage.topic, other] })
    await until(() => member.owned() === 4)
  },
  async function a_pattern_is_subscribed(stage) {
    const member = await stage.member({ topics: [new RegExp(`^${stage.topic}$`)] })
    await until(() => member.owned() === 2)
  },
  async function partitions_are_added_to_a_topic(stage) {
    const member = await stage.member()
    await until(() => member.owned() === 2)
    await stage.admin.createPartitions({ topicPartitions: [{ topic: stage.topic, count: 4 }] })
    await until(() => member.owned() === 4)
  },
  async function seeks(stage) {
    await stage.send()
    const member = await stage.member()
    await read(member, 10)
    member.seek({ topic: stage.topic, partition: 0, offset: '3' })
    await read(member, 12)
    assert.deepStrictEqual(sorted(member.seen.slice(10)), [6, 8])
  },
  async function partitions_pause(stage) {
    const member = await stage.member()
    await until(() => member.owned() === 2)
    member.pause([{ topic: stage.topic, partitions: [0] }])
    await stage.send()
    await read(member, 5)
    assert.deepStrictEqual(sorted(member.seen), [1, 3, 5, 7, 9])
    member.resume([{ topic: stage.topic, partitions: [0] }])
    await read(member, 10)
  },
  async function a_member_describes_its_group(stage) {
    const member = await stage.member()
    await until(() => member.owned() === 2)
    const described = await member.describeGroup()
    assert.deepStrictEqual([described.state, described.protocol, described.members.length], ['Stable', 'RoundRobinAssigner', 1])
  },
  async function a_consumer_is_stopped_and_run_again(stage) {
    await stage.send()
    const member = await stage.member()
    await read(member, 10)
    await member.stop()
    await stage.send()
    await member.run({ eachMessage: async ({ message }) => { member.seen.push(Number(message.value)) } })
    await read(member, 20)
  },
  async function records_have_keys_headers_and_times(stage) {
    const producer = await stage.producer()
    const timestamp = `${Date.now() - 1000}` // brokers delete old records
    const message = { key: 'key', value: '1', partition: 0, timestamp, headers: { h: 'x' } }
    const [stored] = await producer.send({ topic: stage.topic, messages: [message] })
    assert.strictEqual(stored.baseOffset, '0')
    const got = []
    await stage.member({ run: { eachMessage: async (one) => { got.push(one.message) } } })
    await until(() => got.length)
    assert.deepStrictEqual([`${got[0].key}`, got[0].timestamp, `${got[0].headers.h}`], ['key', timestamp, 'x'])
  },
  async function gzip(stage) {
    await stage.send(10, { compression: CompressionTypes.GZIP })
    await read(await stage.member(), 10)
  },
  async function every_kind_of_acknowledgement(stage) {
    // With 1 first: no answer to 0 says that a broker does not lead a new partition yet.
    for (const acks of [1, 0, -1]) await stage.send(10, { acks })
    await read(await stage.member(), 30)
  },
  async function several_topics_are_written_at_once(stage) {
    const producer = await stage.producer()
    const messages = [{ value: '1' }]
    const stored = await producer.sendBatch({ topicMessages: [{ topic: stage.topic, messages }, { topic: stage.topic, messages }] })
    assert(stored.length)
    await read(await stage.member(), 2)
  },
  async function an_idempotent_producer(stage) {
    await stage.send(100, { idempotent: true, maxInFlightRequests: 1 })
    await read(await stage.member(), 100)
  },
  async function a_topic_whose_name_is_invalid(stage) {
    const producer = await stage.producer({ retry: { retries: 0 } })
    await refused(producer.send({ topic: 'no topic:?', messages: [{ value: '1' }] }))
  },
  async function a_transaction_is_committed(stage) {
    const producer = await stage.producer({ transactionalId: stage.group, idempotent: true, maxInFlightRequests: 1 })
    const transaction = await producer.transaction()
    await transaction.send({ topic: stage.topic, messages: [{ value: '1', partition: 0 }, { value: '2', partition: 1 }] })
    await transaction.commit()
    const member = await stage.member()
    await read(member, 2)
    assert.deepStrictEqual(sorted(member.seen), [1, 2])
  },
  async function a_transaction_is_aborted(stage) {
    const producer = await stage.producer({ transactionalId: stage.group, idempotent: true, maxInFlightRequests: 1 })
    const aborted = await producer.transaction()
    await aborted.send({ topic: stage.topic, messages: [{ value: '1', partition: 0 }] })
    await aborted.abort()
    const committed = await producer.transaction()
    await committed.send({ topic: stage.topic, messages: [{ value: '2', partition: 0 }] })
    await committed.commit()
    const member = await stage.member()
    await read(member, 1)
    assert.deepStrictEqual(member.seen, [2])
  },
  async function offsets_are_committed_in_a_transaction(stage) {
    const producer = await stage.producer({ transactionalId: stage.group, idempotent: true, maxInFlightRequests: 1 })
    const topics = [{ topic: stage.topic, partitions: [{ partition: 0, offset: '5' }, { partition: 1, offset: '6' }] }]
    const transaction = await producer.transaction()
    await transaction.sendOffsets({ consumerGroupId: stage.group, topics })
    await transaction.commit()
    await until(async () => `${await stage.offsets()}` === '5,6')
  },
  async function a_second_producer_fences_the_first(stage) {
    const options = { transactionalId: stage.group, idempotent: true, maxInFlightRequests: 1 }
    const first = await (await stage.producer(options)).transaction()
    await first.send({ topic: stage.topic, messages: [{ value: '1' }] })
    const second = await (await stage.producer(options)).transaction()
    await second.send({ topic: stage.topic, messages: [{ value: '2' }] })
    await second.commit()
    await refused(first.send({ topic: stage.topic, messages: [{ value: '3' }] }).then(() => first.commit()))
  },
  async function topics_are_made_and_deleted({ admin, topic }) {
    const topics = [{ topic: `${topic}-made` }]
    assert.strictEqual(await admin.createTopics({ topics, waitForLeaders: false }), true)
    assert.strictEqual(await admin.createTopics({ topics }), false)
    await until(async () => (await admin.listTopics()).includes(`${topic}-made`))
    await admin.deleteTopics({ topics: [`${topic}-made`] })
    await until(async () => !(await admin.listTopics()).includes(`${topic}-made`))
  },
  async function a_cluster_is_described({ admin }) {
    const described = await admin.describeCluster()
    assert(described.brokers.length && described.clusterId)
  },
  async function topics_are_described({ admin, topic }) {
    const { topics: [described] } = await admin.fetchTopicMetadata({ topics: [topic] })
    assert.strictEqual(described.partitions.length, 2)
  },
  async function first_and_last_offsets(stage) {
    await stage.send()
    const offsets = await stage.admin.fetchTopicOffsets(stage.topic)
    assert.deepStrictEqual(offsets.map(({ low, high }) => [low, high]), [['0', '5'], ['0', '5']])
  },
  async function offsets_for_times(stage) {
    await stage.send()
    const later = await stage.admin.fetchTopicOffsetsByTimestamp(stage.topic, Date.now() + 10 ** 7)
    assert.deepStrictEqual(later.map(({ offset }) => offset), ['5', '5'])
    const first = await stage.admin.fetchTopicOffsetsByTimestamp(stage.topic, 0)
    assert.deepStrictEqual(first.map(({ offset }) => offset), ['0', '0'])
  },
  async function configs_are_changed({ admin, topic }) {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
    await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '123456' }] }] })
    await until(async () => {
      const { resources: [{ configEntries }] } = await admin.describeConfigs({ resources: [resource] })
      return configEntries.find(({ configName }) => configName === 'retention.ms').configValue === '123456'
    })
  },
  async function groups_are_listed_and_described(stage) {
    const member = await stage.member()
    await until(() => member.owned() === 2)
    const { groups } = await stage.admin.listGroups()
    assert(groups.some(({ groupId, protocolType }) => groupId === stage.group && protocolType === 'consumer'))
    const { groups: [group] } = await stage.admin.describeGroups([stage.group])
    assert.deepStrictEqual([group.state, group.members.length], ['Stable', 1])
  },
  async function the_offsets_of_a_group_are_set(stage) {
    await stage.send()
    const member = await stage.member()
    await read(member, 10)
    await member.disconnect()
    const groupId = stage.group
    await stage.admin.setOffsets({ groupId, topic: stage.topic, partitions: [{ partition: 0, offset: '2' }] })
    assert.strictEqual((await stage.offsets())[0], 2)
    await stage.admin.resetOffsets({ groupId, topic: stage.topic, earliest: true })
    const again = await stage.member()
    await read(again, 10)
  },
  async function a_group_is_deleted(stage) {
    await stage.send()
    const member = await stage.member()
    await read(member, 10)
    await refused(stage.admin.deleteGroups([stage.group]))
    await member.disconnect()
    await stage.admin.deleteGroups([stage.group])
    assert.deepStrictEqual(await stage.offsets(), [-1, -1])
  },
  async function records_are_deleted(stage) {
    await stage.send()
    await stage.admin.fetchTopicOffsets(stage.topic) // it does not ask who leads a topic that is new to it
    await stage.admin.deleteTopicRecords({ topic: stage.topic, partitions: [{ partition: 0, offset: '3' }] })
    const offsets = await stage.admin.fetchTopicOffsets(stage.topic)
    assert.strictEqual(offsets.find(({ partition }) => partition === 0).low, '3')
  },
  async function permissions_are_made_and_deleted({ admin, topic }) {
    const acl = {
      resourceType: AclResourceTypes.TOPIC, resourceName: topic, resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: 'User:somebody', host: '*', operation: AclOperationTypes.READ, permissionType: AclPermissionTypes.ALLOW,
    }
    await admin.createAcls({ acl: [acl] })
    await until(async () => (await admin.describeAcls(acl)).resources.length === 1)
    await admin.deleteAcls({ filters: [acl] })
    await until(async () => (await admin.describeAcls(acl)).resources.length === 0)
  },
]

play('kafkajs_scenarios.cjs', scenarios, () => new Stage())
