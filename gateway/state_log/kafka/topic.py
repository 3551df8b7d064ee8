"""Creates the log's topic with the required settings, or checks an existing one.

Everything here blocks and belongs in a thread.
"""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException

from gateway.cluster.own_topics import made_or_found
from gateway.state_log.kafka.transactions import RECORD_BYTES_MAX
from gateway.state_log.log import StateLogError, StateLogUnusable

BATCH_OVERHEAD = 256
"""The most that a batch adds to the size of key and value."""

_SETTINGS = {
    "cleanup.policy": "compact",
    "max.message.bytes": str(RECORD_BYTES_MAX),
    "unclean.leader.election.enable": "false",
    # Size follows the live state: overwritten records are removed within minutes, not weeks.
    "segment.bytes": str(64 << 20),
    "segment.ms": str(10 * 60_000),
    "min.cleanable.dirty.ratio": "0.1",
    # Deleted records and transaction markers (two a second even in a quiet log) are removed soon,
    # but not before a reader can have come from a record to its deletion.
    "delete.retention.ms": str(10 * 60_000),
}


def make_or_check(config: Mapping[str, Any], topic: str) -> int:
    """Create or check the topic. Returns the largest record size in bytes.

    Raises StateLogUnusable for a topic that would lose groups, StateLogError if the cluster does
    not answer.
    """
    try:
        settings = made_or_found(config, topic, partitions=1, settings=_SETTINGS)
    except KafkaException as error:
        raise StateLogError(f"topic {topic}: {error.args[0].str()}") from None
    policy = settings["cleanup.policy"]
    if policy != "compact":
        raise StateLogUnusable(
            f"topic {topic} has cleanup.policy={policy}, which would lose groups:"
            " set it to compact, or name another topic with --state-topic"
        )
    return min(RECORD_BYTES_MAX, int(settings["max.message.bytes"])) - BATCH_OVERHEAD
