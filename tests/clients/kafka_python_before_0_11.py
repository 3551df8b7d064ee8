"""kafka-python as a client of brokers before 0.11: `BOOTSTRAP TOPIC GROUP VERSION`.

It writes records, reads them in a group, commits, and prints what it read and committed.
"""

import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

RECORDS = 20
PARTITIONS = 3
LIMIT_S = 60


def main(bootstrap: str, topic: str, group: str, version: str) -> None:
    """Write, read, commit."""
    common = {
        "bootstrap_servers": bootstrap,
        "api_version": tuple(int(number) for number in version.split(".")),
    }
    producer = KafkaProducer(**common, compression_type="gzip")
    for number in range(RECORDS):
        producer.send(topic, b"%d" % number, partition=number % PARTITIONS).get(LIMIT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, **common, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    values: list[int] = []
    ends_at_s = time.monotonic() + LIMIT_S
    while len(values) < RECORDS and time.monotonic() < ends_at_s:
        polled = consumer.poll(500)
        values += [int(record.value) for records in polled.values() for record in records]
    consumer.commit()
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    committed = [consumer.committed(partition) for partition in partitions]
    consumer.close()
    print(sorted(values), committed)


if __name__ == "__main__":
    main(*sys.argv[1:])
