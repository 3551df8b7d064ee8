// A producer of @platformatic/kafka, as librdkafka_producer.py: BOOTSTRAP PREFIX CODEC...

const { inspect } = require("node:util");

const { Producer, stringSerializers } = require("@platformatic/kafka");

const TEXT = "compressible text ".repeat(5000);
const LONG_TEXT = "compressible text ".repeat(110000);

async function main(bootstrap, prefix, ...codecs) {
  for (const compression of codecs) {
    const topic = `${prefix}-${compression}`;
    const settings = {
      clientId: "producer",
      bootstrapBrokers: bootstrap.split(","),
      serializers: stringSerializers,
      idempotent: true,
      compression,
    };
    const plain = new Producer(settings);
    for (const value of compression === "none" ? [TEXT] : [TEXT, LONG_TEXT]) {
      await plain.send({ messages: [{ topic, partition: 0, value }] });
    }
    await plain.close();
    const transactional = new Producer({ ...settings, transactionalId: topic });
    const transaction = await transactional.beginTransaction();
    await transaction.send({ messages: [{ topic, partition: 0, value: TEXT }] });
    await transaction.commit();
    await transactional.close();
    if (compression === "none") {
      await checkFencing({ ...settings, transactionalId: `${topic}-fenced` }, topic);
    }
  }
}

// Fails unless the first of two producers with one transactional id is fenced.
async function checkFencing(settings, topic) {
  const [first, second] = [new Producer(settings), new Producer(settings)];
  const fenced = await first.beginTransaction();
  await fenced.send({ messages: [{ topic, partition: 1, value: TEXT }] });
  // By default it claims to be producer 0, and is refused itself.
  await second.beginTransaction({ producerId: -1n, producerEpoch: -1 });
  const refusal = await fenced.commit().then(() => undefined, (error) => error);
  if (!/PRODUCER_FENCED|INVALID_PRODUCER_EPOCH/.test(inspect(refusal, { depth: null }))) {
    throw new Error("the first producer was not fenced", { cause: refusal });
  }
  await Promise.all([first.close(true), second.close(true)]);
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
