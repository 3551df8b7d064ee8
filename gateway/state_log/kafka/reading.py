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
"""A cluster that is silent for this long counts as unreadable."""
FETCH_WAIT_MS = 10
"""How long a broker waits for more records at the end of the log."""
_AT_A_TIME, _AT_A_TIME_S = 1_000, 0.1
_NO_GROUP = "groupferry-state-log"
"""librdkafka requires a group id. Nothing joins that group or commits to it."""


def read_all(config: Mapping[str, Any], *, topic: str, partition: int) -> Iterator[StoredEntry]:
    """All current records, oldest first. Fence the previous writer before the call, or records that
    it is still writing may be missed.

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
                elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # the topic may be new
                    raise StateLogError(f"topic {topic} cannot be read: {error.str()}")
            # The position also advances past invisible records: transaction markers, aborted data.
            (position,) = consumer.position([beginning])
            if position.offset != reached:
                reached, give_up_at = position.offset, time.monotonic() + READ_SILENCE_S
        raise StateLogError(f"topic {topic} cannot be read: the cluster does not answer")
    except KafkaException as error:
        raise StateLogError(f"topic {topic} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()
