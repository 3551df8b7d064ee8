"""The partitions that an anchor shows as its own."""

from collections.abc import Iterable

import pytest

from coordinator.interface.topics import Topics
from gateway.hosting import shown_partitions
from gateway.hosting.shown_partitions import ASSIGNMENT_BYTES_MAX, ShownPartitions, assignment_of
from kafka_codecs.consumer_protocol import decode_assignment
from tests.support.group_script import make_topics
from tests.support.hosted_scene import HostedScene


def partition_counts(assignment: bytes) -> dict[str, int]:
    """The number of partitions of each topic; they are the topic's first."""
    version, decoded = decode_assignment(assignment)
    assert version == 0
    for topic in decoded.assigned_partitions:
        assert topic.partitions == tuple(range(len(topic.partitions)))
    return {topic.topic: len(topic.partitions) for topic in decoded.assigned_partitions}


def test_all_partitions_of_existing_topics_are_shown() -> None:
    """A member may subscribe to a topic that does not exist yet."""
    topics = make_topics(foo=3, bar=2, other=1)
    assert partition_counts(assignment_of(("foo", "later", "bar"), topics)) == {"bar": 2, "foo": 3}
    assert partition_counts(assignment_of((), Topics())) == {}


def test_an_assignment_has_a_limit() -> None:
    """A topic for which there is no room does not shut out a smaller one."""
    topics = make_topics(a=10_000, b=10_000, c=5_000, d=1_000, e=10)
    assignment = assignment_of("abcde", topics)
    assert partition_counts(assignment) == {"a": 10_000, "c": 5_000, "d": 1_000, "e": 10}
    assert len(assignment) <= ASSIGNMENT_BYTES_MAX


def test_the_limit_counts_every_byte() -> None:
    """If only partitions counted, many short topics would exceed the limit."""
    names = [f"t{number:05}" for number in range(10_000)]
    assignment = assignment_of(names, make_topics(**dict.fromkeys(names, 1)))
    one_topic = len(assignment_of(names[:1], make_topics(t00000=1))) - len(
        assignment_of((), Topics())
    )
    assert ASSIGNMENT_BYTES_MAX - one_topic < len(assignment) <= ASSIGNMENT_BYTES_MAX


def test_the_assignment_is_computed_once_per_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members and their topics count, heartbeats do not."""
    scene = HostedScene()
    engine = scene.group.engine
    what = ShownPartitions(engine)
    assert partition_counts(what.assignment()) == {}
    scene.native_member()
    scene.wait(10_000)
    computed = []
    compute = shown_partitions.assignment_of

    def count_and_compute(names: Iterable[str], topics: Topics) -> bytes:
        computed.append(topics)
        return compute(names, topics)

    monkeypatch.setattr(shown_partitions, "assignment_of", count_and_compute)
    before = what.assignment()
    assert partition_counts(before)
    for _ in range(10):
        scene.wait(3_000)
        scene.native("n", 2)
        assert what.assignment() is before
    assert len(computed) == 1


def test_a_group_without_known_topics_shows_the_latest_ones() -> None:
    """All members have left, or a classic group forms: the anchor does not rejoin for that."""
    scene = HostedScene()
    what = ShownPartitions(scene.group.engine)
    scene.native_member()
    before = what.assignment()
    assert partition_counts(before)
    epoch = scene.group.engine.core.epoch
    scene.native("n", -1)
    assert scene.group.engine.core.epoch != epoch
    assert what.assignment() == before


def test_a_hosted_group_shows_its_topics_in_the_cluster() -> None:
    """Soon after the first member has joined: the anchor joins before it."""
    scene = HostedScene()
    scene.native_member()
    assert partition_counts(scene.in_cluster.assignment) == {}
    scene.wait(10_000)
    assert partition_counts(scene.in_cluster.assignment) == {
        name: scene.group.engine.topics.by_name[name].partition_count
        for name in scene.group.engine.core.subscribed_topics()
    }
    assert partition_counts(scene.in_cluster.assignment)
