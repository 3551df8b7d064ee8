"""Creates the gateway's own topics in the cluster and reads their settings.

Everything here blocks and belongs in a thread.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

REPLICAS_WANTED = 3
CLUSTER_TIMEOUT_S = 15.0
LOOK_INTERVAL_S = 0.1

R = TypeVar("R")


def list_topics(config: Mapping[str, Any]) -> ClusterMetadata:
    """The topics of the cluster, and its id. Raises KafkaException."""
    return AdminClient(dict(config)).list_topics(timeout=CLUSTER_TIMEOUT_S)


def made_or_found(
    config: Mapping[str, Any], topic: str, *, partitions: int, settings: Mapping[str, str]
) -> Mapping[str, str]:
    """Create the topic unless it exists, and return all its settings. An existing topic is not
    changed.

    Raises KafkaException.
    """
    admin = AdminClient(dict(config))
    known = admin.list_topics(timeout=CLUSTER_TIMEOUT_S)
    if topic not in known.topics:
        replicas = min(REPLICAS_WANTED, len(known.brokers))
        in_sync = "2" if replicas == REPLICAS_WANTED else "1"
        _make(
            admin,
            NewTopic(
                topic,
                num_partitions=partitions,
                replication_factor=replicas,
                config={**settings, "min.insync.replicas": in_sync},
            ),
        )
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = _retry_until_known(
        lambda: admin.describe_configs([resource], request_timeout=CLUSTER_TIMEOUT_S)[resource]
    )
    return {name: entry.value for name, entry in entries.items()}


def _make(admin: AdminClient, wanted: NewTopic) -> None:
    try:
        admin.create_topics([wanted], request_timeout=CLUSTER_TIMEOUT_S)[wanted.topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _retry_until_known(ask: Callable[[], Future[R]]) -> R:
    """Retry, because not every broker knows a new topic immediately."""
    give_up_at = time.monotonic() + CLUSTER_TIMEOUT_S
    while True:
        try:
            return ask().result()
        except KafkaException as error:
            is_unknown = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not is_unknown or time.monotonic() > give_up_at:
                raise
        time.sleep(LOOK_INTERVAL_S)
