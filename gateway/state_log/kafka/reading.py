"""Reads all committed batches of the log.

Everything here blocks and belongs in a thread.
"""

import time
from collections.abc import Iterator, Mapping
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
"""A cluster that says nothing for so long cannot be read."""
FETCH_WAIT_MS = 10
"""How long a broker keeps us waiting for more, at the end of the log."""
_AT_A_TIME, _AT_A_TIME_S = 1_000, 0.1
_NO_GROUP = "groupferry-state-log"
"""librdkafka wants a name; nothing joins that group or commits to it."""


def read_all(config: Mapping[str, Any], *, topic: str, partition: int) -> Iterator[StoredEntry]:
    """Every record from the first to the last that there is now, oldest first. Call it after the
    writer before us was fenced, or it may miss what that one is still writing.

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
    beginning = TopicPartition(topic, partition, OFFSET_BEGINNING)
    reached, give_up_at = OFFSET_INVALID, time.monotonic() + READ_SILENCE_S
    try:
        consumer.assign([beginning])
        while time.monotonic() < give_up_at:
            for message in consumer.consume(_AT_A_TIME, _AT_A_TIME_S):
                error = message.error()
                if error is None:
                    yield StoredEntry(message.offset() or 0, message.key() or b"", message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # it may just be new
                    raise StateLogError(f"topic {topic} cannot be read: {error.str()}")
            # It also passes what we are not shown: ends of transactions, and what was undone.
            (position,) = consumer.position([beginning])
            if position.offset != reached:
                reached, give_up_at = position.offset, time.monotonic() + READ_SILENCE_S
        raise StateLogError(f"topic {topic} cannot be read: the cluster says nothing")
    except KafkaException as error:
        raise StateLogError(f"topic {topic} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()
