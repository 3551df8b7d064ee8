"""The topic of the log: made with the settings that it needs, or checked for them.

Everything here blocks, and belongs in a thread.
"""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException

from gateway.cluster.own_topics import made_or_found
from gateway.state_log.kafka.transactions import RECORD_BYTES_MAX
from gateway.state_log.log import StateLogError, StateLogUnusable

BATCH_OVERHEAD = 256
"""What a record is wrapped in, beside key and value, at the most."""

_SETTINGS = {
    "cleanup.policy": "compact",
    "max.message.bytes": str(RECORD_BYTES_MAX),
    "unclean.leader.election.enable": "false",
    # The size follows the live state: what was overwritten is gone within minutes, not weeks.
    "segment.bytes": str(64 << 20),
    "segment.ms": str(10 * 60_000),
    "min.cleanable.dirty.ratio": "0.1",
    # So is what was deleted, and the end of each transaction: twice a second even if all is quiet.
    # Not sooner than anybody who reads the log has come from a record to its deletion.
    "delete.retention.ms": str(10 * 60_000),
}


def make_or_check(config: Mapping[str, Any], topic: str) -> int:
    """Let there be such a topic; how many bytes a record of it may have.

    Raises StateLogUnusable for one in which groups would get lost, StateLogError if the cluster
    cannot be asked.
    """
    try:
        found = made_or_found(config, topic, partitions=1, settings=_SETTINGS)
    except KafkaException as error:
        raise StateLogError(f"topic {topic}: {error.args[0].str()}") from None
    policy = found["cleanup.policy"]
    if policy != "compact":
        raise StateLogUnusable(
            f"topic {topic} has cleanup.policy={policy}, which would lose groups:"
            " set it to compact, or name another topic with --state-topic"
        )
    return min(RECORD_BYTES_MAX, int(found["max.message.bytes"])) - BATCH_OVERHEAD
