"""Histories with regular expressions: members share and change them, and classic members replace
their subscribers (rules 3.13, 5.4, 6.3; scenario 34)."""

import pytest

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.events import TimePassed
from coordinator.interface.records import (
    GroupEpoch,
    MemberMetadata,
    RegularExpression,
    TargetAssignmentMetadata,
)
from coordinator.interface.volatile_records import DeadlineKind
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import GivenMember, given_classic, given_native
from tests.support.group_script import GroupScript, make_topics

ALL = {"foo": (0, 1, 2)}


def tombstones(group: GroupScript) -> list[str]:
    """The regular expressions that the last step deletes."""
    return [
        record.regex
        for record in group.last_step.durable
        if isinstance(record, RegularExpression) and record.value is None
    ]


def given_regex_group(group: GroupScript, *others: GivenMember) -> None:
    """Group epoch 10. n1 is static and subscribes with f.*, which matches foo."""
    n1 = given_native("n1", topics=(), regex="f.*", instance_id="i1", assigned=ALL)
    group.given_consumer_group(n1, *others, regexes={"f.*": ["foo"]})


def test_34_a_classic_member_replaces_one_with_a_regex(group: GroupScript) -> None:
    """Other native members remain. The expression's record is deleted, the epoch is bumped, and the
    member subscribes by names (KAFKA-19720)."""
    given_regex_group(group, given_native("n2", topics=("bar",)))
    reply = group.join(instance_id="i1", topics=("foo",), owned=ALL)
    assert (tombstones(group), group.consumer.epoch) == (["f.*"], 11)
    member = group.consumer.members[reply.member_id]
    assert (member.topic_names, member.topic_regex) == (("foo",), "")
    assert dict(group.consumer.subscribers) == {"foo": 1, "bar": 1}
    assert (reply.generation, group.granted_partitions(reply.member_id)) == (11, ALL)


def test_34_a_classic_member_replaces_the_last_native_one_with_a_regex(group: GroupScript) -> None:
    """The group becomes classic and rebalances, because the joiner's subscription differs."""
    given_regex_group(group)
    token = group.send_join(instance_id="i1", topics=("foo",), owned=ALL)
    assert tombstones(group) == ["f.*"]
    assert isinstance(group.engine.state.group, ClassicGroup)
    assert group.classic.phase.value in ("PreparingRebalance", "CompletingRebalance")
    assert not group.is_parked(token)


def test_the_last_native_member_leaves(group: GroupScript) -> None:
    """At the downgrade the tombstone of the expression follows those of the members and precedes
    those of the group, so that the log may be cut anywhere (rule 8.3)."""
    given_regex_group(group, given_classic("c1", topics=("bar",)))
    group.native("n1", -1, instance_id="i1")
    assert isinstance(group.engine.state.group, ClassicGroup)
    deleting = [type(r) for r in group.last_step.durable]
    assert tombstones(group) == ["f.*"]
    place = deleting.index(RegularExpression)
    assert deleting.index(TargetAssignmentMetadata) < place
    assert max(i for i, kind in enumerate(deleting) if kind is MemberMetadata) < place
    assert place < deleting.index(GroupEpoch)


def test_a_result_after_the_downgrade_is_ignored(group: GroupScript) -> None:
    """The group has no regular expression any more."""
    group.given_consumer_group(given_native("n1", topics=()), given_classic("c1", assigned=ALL))
    group.native("n1", 10, regex="f.*")
    group.native("n1", -1)
    assert isinstance(group.engine.state.group, ClassicGroup)
    assert group.resolve().durable == ()
    assert group.engine.state.resolution is None


def test_a_result_for_a_dropped_regex_is_ignored(group: GroupScript) -> None:
    """The result is not written. The present expressions wait for the next resolution."""
    group.native("n1", regex="f.*")
    group.native("n1", 1, regex="b.*")
    assert group.resolve().durable == ()
    group.native("n1", 1)
    assert group.last_step.resolution is not None
    assert group.last_step.resolution.regexes == {"b.*"}


def test_an_expired_session_deletes_the_regex(group: GroupScript) -> None:
    """A leave does the same."""
    given_regex_group(group)
    left_ms = group.left_ms(DeadlineKind.SESSION, "n1")
    assert left_ms is not None
    group.now_ms += left_ms
    group.feed(TimePassed())
    assert tombstones(group) == ["f.*"]
    assert not group.consumer.members


def test_a_static_member_that_leaves_temporarily_keeps_its_regex(group: GroupScript) -> None:
    """Its return bumps nothing, needs no resolution, and gives it the same partitions."""
    given_regex_group(group)
    group.native("n1", -2, instance_id="i1")
    assert tombstones(group) == []
    reply = group.native("n9", instance_id="i1", regex="f.*", topics=())
    assert (reply.member_epoch, group.consumer.epoch) == (10, 10)
    assert group.names_of(reply.assignment) == ALL
    assert tombstones(group) == []


def test_two_members_share_a_regex_and_one_leaves(make_group: MakeGroup) -> None:
    """The other keeps the expression, and takes over the partitions."""
    group = make_group(topics=make_topics(foo=2))
    group.native("n1", regex="f.*")
    group.resolve()
    group.native("n1", 1)
    group.wait(1_000)
    group.native("n2", regex="f.*")
    group.native("n1", 2, owned={"foo": (0, 1)})
    group.native("n1", 2, owned={"foo": (0,)})
    group.native("n2", 3)
    assert [len(group.current(id_).assigned) for id_ in ("n1", "n2")] == [1, 1]
    group.native("n1", -1)
    assert tombstones(group) == []
    group.wait(1_000)
    group.native("n2", 3)
    assert group.granted_partitions("n2") == {"foo": (0, 1)}


def test_a_classic_member_learns_of_a_topic_that_another_members_regex_matches(
    make_group: MakeGroup,
) -> None:
    """The result of a resolution has the effect of any bump: the others rejoin only after a new
    target."""
    group = make_group(topics=make_topics(foo=1))
    group.given_consumer_group(
        given_native("n1", topics=(), regex="f.*"), given_classic("c1", assigned={"foo": (0,)})
    )
    group.native("n1", 10)
    group.resolve()
    assert group.consumer.epoch == 11
    assert group.beat("c1", 10).error == 0
    group.native("n1", 10)
    assert group.beat("c1", 10).error != 0


@pytest.mark.parametrize("is_resolved", [True, False])
def test_a_member_with_a_regex_upgrades_the_group(group: GroupScript, is_resolved: bool) -> None:
    """The classic group converts before the joiner's topics are known."""
    ids = group.stable_classic_group({"c1": ALL})
    reply = group.native("n1", regex="f.*")
    assert isinstance(group.engine.state.group, ConsumerGroup)
    assert (reply.member_epoch, group.consumer.epoch) == (1, 1)
    assert group.beat(ids["c1"], 1).error == 0
    if is_resolved:
        group.resolve()
        assert group.native("n1", 1).member_epoch == 2
        assert group.beat(ids["c1"], 1).error != 0


def test_a_deleted_or_replaced_group_leaves_no_regex(group: GroupScript) -> None:
    """Its log restores no regular expression."""
    given_regex_group(group)
    group.native("n1", -1, instance_id="i1")
    group.delete_group()
    group.restart()
    assert group.engine.state.group is None
