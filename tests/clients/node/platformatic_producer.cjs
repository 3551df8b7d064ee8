// A producer of @platformatic/kafka, as librdkafka_producer.py: BOOTSTRAP PREFIX CODEC...

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
  }
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
