"""Creates the log's topic with the required settings, or checks an existing one.

Everything here blocks and belongs in a thread.
"""

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from gateway.cluster.own_topics import LOOK_INTERVAL_S, list_topics, made_or_found
from gateway.state_log.kafka.transactions import RECORD_BYTES_MAX
from gateway.state_log.log import StateLogError, StateLogUnusable

BATCH_OVERHEAD = 256
"""The most that a batch adds to the size of key and value."""
PARTITIONS_TIMEOUT_S = 3.0
LOOK_TIMEOUT_S = 2.0

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


def make_or_check(config: Mapping[str, Any], topic: str, partitions: int = 1) -> int:
    """Create the topic with this many partitions, or check that it has them. Returns the largest
    record size in bytes.

    Raises StateLogUnusable for a topic that would lose groups, StateLogError if the cluster does
    not answer.
    """
    try:
        settings = made_or_found(config, topic, partitions=partitions, settings=_SETTINGS)
    except KafkaException as error:
        raise StateLogError(f"topic {topic}: {error.args[0].str()}") from None
    existing = _await_partitions(config, topic, partitions) if partitions > 1 else 1
    policy = settings["cleanup.policy"]
    if policy != "compact":
        raise StateLogUnusable(
            f"topic {topic} has cleanup.policy={policy}, which would lose groups:"
            " set it to compact, or name another topic with --state-topic"
        )
    if existing < partitions:
        raise StateLogUnusable(
            f"topic {topic} has {existing} of the {partitions} partitions that the"
            " state of several processes needs: add the others, name another topic with"
            " --state-topic, which begins without groups, or leave out --processes"
        )
    return min(RECORD_BYTES_MAX, int(settings["max.message.bytes"])) - BATCH_OVERHEAD


def count_partitions(config: Mapping[str, Any], topic: str) -> int:
    """How many partitions the topic has; 0 if there is no such topic. Raises StateLogError."""
    try:
        known = list_topics(config).topics.get(topic)
    except KafkaException as error:
        raise StateLogError(f"topic {topic}: {error.args[0].str()}") from None
    return 0 if known is None else len(known.partitions)


def add_partitions(config: Mapping[str, Any], topic: str, partitions: int) -> None:
    """Extend the topic to this many partitions. Raises StateLogUnusable, StateLogError."""
    admin = AdminClient(dict(config))  # kept until it has answered
    try:
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
    except KafkaException as error:
        if count_partitions(config, topic) >= partitions:  # another client has added them
            return
        raise StateLogUnusable(
            f"topic {topic} cannot be given the {partitions} partitions that the state of several"
            f" processes needs: {error.args[0].str()}; allow ALTER on it, or add them by hand, or"
            " leave out --processes"
        ) from None


def has_partition(config: Mapping[str, Any], topic: str, partition: int) -> bool:
    """Whether the topic has the partition. It does as long as the cluster does not deny it."""
    admin = AdminClient(dict(config))
    wanted = TopicCollection([topic])  # unlike a list of topics, it creates none
    try:
        known = admin.describe_topics(wanted, request_timeout=LOOK_TIMEOUT_S)[topic].result()
    except KafkaException as error:
        return bool(error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART)
    return partition in {one.id for one in known.partitions}


def _await_partitions(config: Mapping[str, Any], topic: str, wanted: int) -> int:
    """How many partitions the topic has. Not every broker knows a new one immediately."""
    give_up_at = time.monotonic() + PARTITIONS_TIMEOUT_S
    while True:
        count = count_partitions(config, topic)
        if count >= wanted or time.monotonic() > give_up_at:
            return count
        time.sleep(LOOK_INTERVAL_S)
