"""What an assignor is told."""

from coordinator.assignors import ASSIGNORS
from coordinator.assignors.subscriber import Subscriber, subscribers_by_topic
from coordinator.config import GroupConfig
from tests.support.group_values import topic_id

FOO, BAR = topic_id("foo"), topic_id("bar")


def test_subscribers_by_topic_are_in_order() -> None:
    """Both topics and members: the same input gives the same output."""
    members = {
        "b": Subscriber(instance_id=None, topic_ids=frozenset({FOO, BAR})),
        "a": Subscriber(instance_id=None, topic_ids=frozenset({FOO})),
        "c": Subscriber(instance_id=None, topic_ids=frozenset()),
    }
    by_topic = subscribers_by_topic(members)
    assert by_topic == {FOO: ["a", "b"], BAR: ["b"]}
    assert list(by_topic) == sorted([FOO, BAR])


def test_every_assignor_that_is_configured_exists() -> None:
    """Kafka's names (spec 1.5)."""
    assert tuple(ASSIGNORS) == GroupConfig().consumer_assignors
