"""The topic of the log: made with the settings that it needs, or checked for them.

Everything here blocks, and belongs in a thread.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from gateway.state_log.kafka.transactions import RECORD_BYTES_MAX
from gateway.state_log.log import StateLogError, StateLogUnusable

REPLICAS_WANTED = 3
CLUSTER_TIMEOUT_S = 15.0
LOOK_INTERVAL_S = 0.1
BATCH_OVERHEAD = 256
"""What a record is wrapped in, beside key and value, at the most."""

R = TypeVar("R")

_SETTINGS = {
    "cleanup.policy": "compact",
    "max.message.bytes": str(RECORD_BYTES_MAX),
    "unclean.leader.election.enable": "false",
    # The size follows the live state: what was overwritten is gone within minutes, not weeks.
    "segment.bytes": str(64 << 20),
    "segment.ms": str(10 * 60_000),
    "min.cleanable.dirty.ratio": "0.1",
}


def make_or_check(config: Mapping[str, Any], topic: str) -> int:
    """Let there be such a topic; how many bytes a record of it may have.

    Raises StateLogUnusable for one in which groups would get lost, StateLogError if the cluster
    cannot be asked.
    """
    admin = AdminClient(dict(config))
    try:
        known = admin.list_topics(timeout=CLUSTER_TIMEOUT_S)
        if topic not in known.topics:
            _make(admin, topic, min(REPLICAS_WANTED, len(known.brokers)))
        return _check(admin, topic)
    except KafkaException as error:
        raise StateLogError(f"topic {topic}: {error.args[0].str()}") from None


def _make(admin: AdminClient, topic: str, replicas: int) -> None:
    in_sync = "2" if replicas == REPLICAS_WANTED else "1"
    wanted = NewTopic(
        topic,
        num_partitions=1,
        replication_factor=replicas,
        config={**_SETTINGS, "min.insync.replicas": in_sync},
    )
    try:
        admin.create_topics([wanted], request_timeout=CLUSTER_TIMEOUT_S)[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _check(admin: AdminClient, topic: str) -> int:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = _once_known(
        lambda: admin.describe_configs([resource], request_timeout=CLUSTER_TIMEOUT_S)[resource]
    )
    policy = configs["cleanup.policy"].value
    if policy != "compact":
        raise StateLogUnusable(
            f"topic {topic} has cleanup.policy={policy}, which would lose groups:"
            " set it to compact, or name another topic with --state-topic"
        )
    return min(RECORD_BYTES_MAX, int(configs["max.message.bytes"].value)) - BATCH_OVERHEAD


def _once_known(ask: Callable[[], Future[R]]) -> R:
    """Not every broker knows a new topic at once."""
    give_up_at = time.monotonic() + CLUSTER_TIMEOUT_S
    while True:
        try:
            return ask().result()
        except KafkaException as error:
            is_unknown = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not is_unknown or time.monotonic() > give_up_at:
                raise
        time.sleep(LOOK_INTERVAL_S)
