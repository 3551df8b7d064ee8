"""The topics that the image must contain for a decision."""

from dataclasses import replace

import pytest

from coordinator.group.topic_names import topics_of_group, topics_of_request
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    Event,
    JoinGroupReceived,
    SyncGroupReceived,
    TimePassed,
)
from tests.support.engine_requests import CLASSIC_JOIN, NATIVE_BEAT
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript, embedded_assignment, subscription

JUNK = b"\x00\x01 junk"


def join(*metadata: bytes) -> JoinGroupReceived:
    protocols = tuple((str(n), embedded) for n, embedded in enumerate(metadata))
    return replace(CLASSIC_JOIN, protocols=protocols)


def native(topic_names: tuple[str, ...] | None) -> ConsumerHeartbeatReceived:
    return replace(NATIVE_BEAT, topic_names=topic_names)


def sync(*assignments: bytes) -> SyncGroupReceived:
    return SyncGroupReceived(
        token=1,
        version=5,
        member_id="m",
        instance_id=None,
        generation=1,
        assignments=tuple((str(n), embedded) for n, embedded in enumerate(assignments)),
    )


@pytest.mark.parametrize(
    ("event", "names"),
    [
        (join(subscription(["a", "b"]), subscription(["c"])), {"a", "b", "c"}),
        (join(JUNK, subscription(["c"]), b""), {"c"}),
        (join(subscription(["a"], owned={"b": (0,)})), {"a", "b"}),
        (join(), set()),
        (native(("a", "b")), {"a", "b"}),
        (native(None), set()),
        (sync(embedded_assignment({"a": (0,)}), JUNK, b""), {"a"}),
        (TimePassed(), set()),
    ],
)
def test_a_request_names_its_topics(event: Event, names: set[str]) -> None:
    """All protocols of a list count. Undecodable bytes contain no topic."""
    assert topics_of_request(event) == names


def test_a_group_names_its_topics(group: GroupScript) -> None:
    """These are the subscribed topics, and in a classic group also the assigned ones."""
    assert topics_of_group(group.engine.state) == frozenset()
    group.given_classic_group(
        given_classic_group_member("a", {"foo": (0,)}, topics=("bar",)),
        given_classic_group_member("b", metadata=JUNK),
    )
    assert topics_of_group(group.engine.state) == {"foo", "bar"}
    group.given_consumer_group(given_classic("c", topics=("x",)), given_native("n", topics=("y",)))
    assert topics_of_group(group.engine.state) == {"x", "y"}
