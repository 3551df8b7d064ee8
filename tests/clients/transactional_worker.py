"""One worker of a read-process-write loop with librdkafka's transactional producer.

It writes each batch to the other topic, and commits the batch's offsets in the same transaction. It
prints `committed N` after each, and `aborted: reason` after a failure, after which it reads the
batch again. It ends with its stdin.
"""

import argparse
import os
import select
import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

BATCH_RECORDS = 20
LIMIT_S = 30


class Worker:
    """Reads one topic, writes the other."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._target = options.target
        self._batch: list[Message] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": options.bootstrap,
                "group.id": options.group,
                "group.protocol": options.protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **({"session.timeout.ms": 6000} if options.protocol == "classic" else {}),
                "log_level": 0,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": options.bootstrap,
                "transactional.id": options.transactional_id,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(LIMIT_S)  # ends a predecessor's open transaction
        self._consumer.subscribe([options.source], on_revoke=self._revoke, on_lost=self._revoke)

    def run(self) -> None:
        """Work until stdin ends."""
        while not select.select([sys.stdin], [], [], 0)[0] or os.read(0, 1024):
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self._batch.append(message)
            if self._batch and (message is None or len(self._batch) == BATCH_RECORDS):
                self._transact()
        self._consumer.close()

    def _revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Drop records that were read but not written, because another worker owns them now."""
        gone = {partition.partition for partition in partitions}
        self._batch = [message for message in self._batch if message.partition() not in gone]

    def _transact(self) -> None:
        batch, self._batch = self._batch, []
        reached = [
            TopicPartition(
                message.topic() or "", message.partition() or 0, (message.offset() or 0) + 1
            )
            for message in batch
        ]
        positions = list({position.partition: position for position in reached}.values())
        self._producer.begin_transaction()
        try:
            for message in batch:
                self._producer.produce(self._target, message.value())
            self._producer.send_offsets_to_transaction(
                positions, self._consumer.consumer_group_metadata(), LIMIT_S
            )
            self._producer.commit_transaction(LIMIT_S)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(LIMIT_S)
            self._read_again()
            print(f"aborted: {failure.args[0].name()}", flush=True)
        else:
            print(f"committed {len(batch)}", flush=True)

    def _read_again(self) -> None:
        for position in self._consumer.committed(self._consumer.assignment(), timeout=LIMIT_S):
            position.offset = max(position.offset, 0)
            self._consumer.seek(position)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "group", "protocol", "source", "target", "transactional-id"):
        parser.add_argument(f"--{name}", required=True)
    Worker(parser.parse_args()).run()
