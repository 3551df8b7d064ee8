"""Topic ids in events are those that Kafka's tools show."""

from uuid import UUID

from coordinator.interface.topics import Topic, Topics
from gateway.events.topic_ids import topic_ids


def test_an_id_is_shown_as_kafka_shows_it() -> None:
    """Base64 for URLs, without padding. A topic that does not exist has none."""
    topic_id = UUID("fbbf7ffe-0001-4000-8000-0000000000ff")
    topics = Topics({"t": Topic(name="t", topic_id=topic_id, partition_count=1)})
    assert topic_ids(topics, ("t", "missing")) == {"t": "-79__gABQACAAAAAAAAA_w"}
