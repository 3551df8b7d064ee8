"""Reads all committed batches of the log.

Everything here blocks and belongs in a thread.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from gateway.state_log.log import StateLogError
from gateway.state_log.record_format import StoredEntry

READ_SILENCE_S = 10.0
"""A cluster that is silent for this long counts as unreadable."""
FETCH_WAIT_MS = 10
"""How long a broker waits for more records at the end of the log."""
_AT_A_TIME, _AT_A_TIME_S = 1_000, 0.01
_UNKNOWN = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION})
"""The errors of a broker that does not know a new topic or partition yet."""
_NO_GROUP = "groupferry-state-log"
"""librdkafka requires a group id. Nothing joins that group or commits to it."""


def read_all(
    config: Mapping[str, Any], *, topic: str, partitions: Collection[int]
) -> Iterator[StoredEntry]:
    """All current records of these partitions, the oldest of each first. Fence the previous writer
    before the call, or records that it is still writing may be missed.

    Raises StateLogError.
    """
    consumer = Consumer(
        {
            **config,
            "group.id": _NO_GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
        }
    )
    beginnings = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions]
    reached, give_up_at = [OFFSET_INVALID], time.monotonic() + READ_SILENCE_S
    unread = set(partitions)
    try:
        # librdkafka asks for the beginning of a partition whose leader it does not know half a
        # second later, however soon it learns the leader.
        with suppress(KafkaException):
            consumer.list_topics(topic, READ_SILENCE_S)
        consumer.assign(beginnings)
        while time.monotonic() < give_up_at:
            for message in consumer.consume(_AT_A_TIME, _AT_A_TIME_S):
                error = message.error()
                if error is None:
                    yield StoredEntry(message.offset() or 0, message.key() or b"", message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                    if not unread:
                        return
                elif error.code() not in _UNKNOWN:
                    raise StateLogError(f"topic {topic} cannot be read: {error.str()}")
            # The position also advances past invisible records: transaction markers, aborted data.
            positions = [position.offset for position in consumer.position(beginnings)]
            if positions != reached:
                reached, give_up_at = positions, time.monotonic() + READ_SILENCE_S
        raise StateLogError(f"topic {topic} cannot be read: the cluster does not answer")
    except KafkaException as error:
        raise StateLogError(f"topic {topic} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()
