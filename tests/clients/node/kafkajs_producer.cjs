// A producer of kafkajs, as librdkafka_producer.py: BOOTSTRAP PREFIX CODEC...

const { CompressionTypes, Kafka, logLevel } = require("kafkajs");

const TEXT = "compressible text ".repeat(5000);
const LONG_TEXT = "compressible text ".repeat(110000);

async function main(bootstrap, prefix, ...codecs) {
  for (const codec of codecs) {
    const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
    const compression = codec === "none" ? CompressionTypes.None : CompressionTypes.GZIP;
    const topic = `${prefix}-${codec}`;
    const plain = kafka.producer({ idempotent: true });
    await plain.connect();
    for (const value of codec === "none" ? [TEXT] : [TEXT, LONG_TEXT]) {
      await plain.send({ topic, compression, messages: [{ partition: 0, value }] });
    }
    await plain.disconnect();
    const transactional = kafka.producer({ idempotent: true, transactionalId: topic, maxInFlightRequests: 1 });
    await transactional.connect();
    const transaction = await transactional.transaction();
    await transaction.send({ topic, compression, messages: [{ partition: 0, value: TEXT }] });
    await transaction.commit();
    await transactional.disconnect();
    if (codec === "none") {
      await checkFencing(kafka, topic);
    }
  }
}

// Fails unless the first of two producers with one transactional id is fenced.
async function checkFencing(kafka, topic) {
  const settings = { idempotent: true, transactionalId: `${topic}-fenced`, maxInFlightRequests: 1 };
  const [first, second] = [kafka.producer(settings), kafka.producer(settings)];
  await Promise.all([first.connect(), second.connect()]);
  const fenced = await first.transaction();
  await fenced.send({ topic, messages: [{ partition: 1, value: TEXT }] });
  const transaction = await second.transaction();
  const refusal = await fenced.commit().then(() => undefined, (error) => error);
  if (!["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"].includes(refusal?.type)) {
    throw new Error(`the first producer was not fenced: ${refusal}`);
  }
  await transaction.abort();
  await Promise.all([first.disconnect(), second.disconnect()]);
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
