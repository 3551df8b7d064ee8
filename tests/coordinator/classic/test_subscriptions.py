"""The topics of a classic group, and their watch (rule 2.9, deviation D11)."""

from dataclasses import replace

import pytest

from coordinator.classic.subscriptions import subscribed_topics, topics_in_force
from coordinator.interface.records import ClassicGroupMetadata
from coordinator.interface.volatile_records import ClassicCoreMoved, ClassicPhase, DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import (
    classic_group,
    given_classic,
    given_classic_group_member,
    given_native,
)
from tests.support.group_script import GroupScript, make_topics

FOO_0 = {"foo": (0,)}
REST = {"foo": (1, 2)}


def test_subscribed_topics_come_from_the_selected_protocol(group: GroupScript) -> None:
    """The union of all members' topics."""
    group.given_classic_group(
        given_classic_group_member("a"), given_classic_group_member("b", topics=("bar",))
    )
    assert subscribed_topics(group.classic) == frozenset({"foo", "bar"})


@pytest.mark.parametrize("how", ["no protocol yet", "foreign", "junk"])
def test_subscribed_topics_may_be_unknown(group: GroupScript, how: str) -> None:
    """The result is None, which differs from an empty set."""
    if how == "no protocol yet":
        group.send_join(group.take_id())
    elif how == "foreign":
        group.given_classic_group(given_classic_group_member("a"), protocol_type="connect")
    else:
        group.given_classic_group(
            given_classic_group_member("a"), given_classic_group_member("b", metadata=b"junk")
        )
    assert subscribed_topics(group.classic) is None


def test_new_subscriptions_count_from_the_next_generation(group: GroupScript) -> None:
    """A generation has the topics that its members had when it began, as Kafka's OffsetDelete
    shows. An empty generation has none."""
    (a,) = group.stable_classic_group({"a": FOO_0}).values()
    group.send_join(group.take_id(), topics=("bar",))
    assert topics_in_force(group.classic) == frozenset({"foo"})
    group.send_join(a, topics=("zar",))
    assert topics_in_force(group.classic) == frozenset({"bar", "zar"})
    group.leave(*group.classic.members)
    group.wait(60_000)
    assert topics_in_force(group.classic) == frozenset()


def given_a_quiet_downgrade(group: GroupScript) -> str:
    """c1 and a static member that returned as classic. Returns the id of the latter."""
    group.given_consumer_group(
        given_classic("c1", assigned=FOO_0), given_native("n2", assigned=REST, instance_id="i2")
    )
    joined = group.join(instance_id="i2")
    assert group.classic.phase is ClassicPhase.STABLE
    return joined.member_id


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_topic_that_grows_after_a_quiet_downgrade(group: GroupScript, is_restarted: bool) -> None:
    """DEV D11: no member knows that it leads. The group watches the topics itself, and starts a
    rebalance that elects a leader."""
    c2 = given_a_quiet_downgrade(group)
    if is_restarted:
        group.restart()
    assert group.beat("c1", 10).error == ErrorCode.NONE
    group.topics = make_topics(2, foo=3, bar=1)
    assert group.beat("c1", 10).error == ErrorCode.NONE
    group.topics = make_topics(3, foo=4, bar=1)
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.beat(c2, 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    first = group.send_join("c1")
    assert group.join(c2).generation == 11
    assert not group.is_parked(first)
    assert group.classic.core.leader in ("c1", c2)
    group.send_sync("c1", 11)
    group.send_sync(c2, 11)
    assert group.classic.phase is ClassicPhase.STABLE
    group.topics = make_topics(4, foo=5, bar=1)
    assert group.beat("c1", 11).error == ErrorCode.NONE, "the new leader watches the topics"


def test_an_aware_leader_watches_the_topics(group: GroupScript) -> None:
    """The group does not check the topics itself, as in Kafka."""
    ids = group.stable_classic_group({"a": FOO_0})
    group.topics = make_topics(2, foo=4)
    assert group.beat(ids["a"], 1).error == ErrorCode.NONE


def test_topics_are_checked_once_per_change(group: GroupScript) -> None:
    """Heartbeats do not check the topics. Unreadable bytes contain no topic and cause no
    failure."""
    junk = given_classic_group_member("a", metadata=b"\x00\x01 junk")
    stored = classic_group(junk, generation=3)[0]
    assert isinstance(stored, ClassicGroupMetadata)
    assert stored.value is not None
    watching = replace(stored.value, unwatched_hash=group.topics.metadata_hash(()))
    group.load(ClassicGroupMetadata(value=watching))
    looks = []
    for version in (1, 1, 2, 2):
        group.topics = make_topics(version, foo=3, bar=version)
        assert group.beat("a", 3).error == ErrorCode.NONE
        looks.append(any(isinstance(r, ClassicCoreMoved) for r in group.last_step.records))
    assert looks == [True, False, True, False]


def test_a_topic_that_grows_during_a_join_phase_does_not_extend_it(group: GroupScript) -> None:
    """Members that rejoin learn of it anyway."""
    c2 = given_a_quiet_downgrade(group)
    group.leave(c2)
    group.wait(4_000)
    group.topics = make_topics(2, foo=4)
    assert group.beat("c1", 10).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.left_ms(DeadlineKind.JOIN_PHASE) == 6_000
