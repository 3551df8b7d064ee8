"""Topic ids as Kafka's tools show them."""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from uuid import UUID

from coordinator.interface.topics import Topics


def topic_ids(topics: Topics, names: Iterable[str]) -> Mapping[str, str]:
    """The ids of topics by name. Leaves out topics that do not exist."""
    known = ((name, topics.by_name.get(name)) for name in names)
    return {name: shown_topic_id(topic.topic_id) for name, topic in known if topic is not None}


def shown_topic_id(topic_id: UUID) -> str:
    """The id as in `kafka-topics --describe`."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
