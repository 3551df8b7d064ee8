"""The range assignor (rule 9.2)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise, product
from uuid import UUID

import pytest
from hypothesis import given

from coordinator.assignors import Target
from coordinator.assignors.group_spec import Subscriber
from coordinator.assignors.range import assign_range
from coordinator.group.target_loads import Loads
from coordinator.interface.errors import GroupError
from kafka_codecs.error_codes import ErrorCode
from tests.support.assignor_strategies import (
    TOPIC_IDS,
    Case,
    cases,
    check_contract,
    new_target,
    spec_of,
)
from tests.support.group_values import partitions, topic_id

FOO, BAR = topic_id("foo"), topic_id("bar")


def numbers(target: Target, member_id: str, topic_id_: UUID) -> list[int]:
    return sorted(p.number for p in target[member_id] if p.topic_id == topic_id_)


def rank_members(case: Case, member_ids: Iterable[str]) -> list[str]:
    """Static members by instance id, then dynamic ones by member id."""
    instance_ids = {id_: case.members[id_].instance_id for id_ in member_ids}
    static = sorted((instance, id_) for id_, instance in instance_ids.items() if instance)
    dynamic = sorted(id_ for id_, instance in instance_ids.items() if not instance)
    return [*(id_ for _, id_ in static), *dynamic]


@given(cases())
def test_everything_goes_to_one_subscriber(case: Case) -> None:
    """Valid, complete, disjoint."""
    check_contract(case, case.assigned_by(assign_range))


@given(cases())
def test_blocks_in_the_order_of_ranks(case: Case) -> None:
    """Each subscriber of a topic gets a contiguous block. The first ones get one partition more.
    Static members, by instance id, precede dynamic ones, by member id."""
    target = case.assigned_by(assign_range)
    for topic_id_, count in case.counts.items():
        subscribers = [id_ for id_, m in case.members.items() if topic_id_ in m.topic_ids]
        blocks = [numbers(target, id_, topic_id_) for id_ in rank_members(case, subscribers)]
        if subscribers:
            share, extra = divmod(count, len(subscribers))
            assert [len(block) for block in blocks] == [
                share + (n < extra) for n in range(len(subscribers))
            ]
            assert [number for block in blocks for number in block] == list(range(count))


@given(cases())
def test_topics_with_equal_subscribers_and_counts_are_co_partitioned(case: Case) -> None:
    """In a homogeneous group these are all topics; otherwise those with the same subscribers."""
    target = case.assigned_by(assign_range)
    subscribers = {
        id_: {name for name, member in case.members.items() if id_ in member.topic_ids}
        for id_ in TOPIC_IDS
    }
    for one, other in product(TOPIC_IDS, repeat=2):
        if case.counts[one] == case.counts[other] and subscribers[one] == subscribers[other]:
            for member_id in case.members:
                assert numbers(target, member_id, one) == numbers(target, member_id, other)


@given(cases(is_homogeneous=True))
def test_one_order_of_members_for_all_topics(case: Case) -> None:
    """The first members therefore get the remainders of all topics."""
    target = case.assigned_by(assign_range)
    loads = [len(target[member_id]) for member_id in rank_members(case, case.members)]
    assert all(one >= other for one, other in pairwise(loads))


@given(cases())
def test_the_past_does_not_matter(case: Case) -> None:
    """The assignor is sticky only as far as ids are stable."""
    afresh = Case(case.members, case.counts, {})
    assert afresh.assigned_by(assign_range) == case.assigned_by(assign_range)


def test_a_returning_static_member_gets_its_partitions_back() -> None:
    """Its member id does not matter."""
    topic_ids = frozenset({FOO})
    old = {id_: Subscriber(instance_id=f"i-{id_}", topic_ids=topic_ids) for id_ in "abc"}
    new = {("x" if id_ == "a" else id_): member for id_, member in old.items()}
    before = new_target(assign_range, spec_of(old, {FOO: 7}, {}))
    after = new_target(assign_range, spec_of(new, {FOO: 7}, {}))
    assert after == {("x" if id_ == "a" else id_): share for id_, share in before.items()}


def test_an_unknown_topic_is_an_error() -> None:
    """UNKNOWN_SERVER_ERROR (rule 9.3)."""
    members = {"a": Subscriber(instance_id=None, topic_ids=frozenset({FOO}))}
    with pytest.raises(GroupError) as refusal:
        assign_range(spec_of(members, {BAR: 1}, {}))
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_assignor_returns_only_changed_members() -> None:
    """A member that keeps its block is not in the result."""
    members = {id_: Subscriber(instance_id=None, topic_ids=frozenset({FOO})) for id_ in "abc"}
    old = {"a": partitions({"foo": (0, 1)}), "b": partitions({"foo": (2, 3)})}
    assert assign_range(spec_of(members, {FOO: 5}, old)) == {"c": partitions({"foo": (4,)})}


def test_no_members_no_target() -> None:
    """An empty group has an empty target."""
    assert assign_range(spec_of({}, {FOO: 3}, {})) == {}


def sparing(old: Mapping[str, Iterable[int]], eager: str, others: str, count: int = 12) -> Target:
    """The new target of a group with two equal topics, whose eager members have exactly their
    target, in both topics the same."""
    both = Subscriber(instance_id=None, topic_ids=frozenset({FOO, BAR}))
    had = {id_: partitions({"foo": numbers, "bar": numbers}) for id_, numbers in old.items()}
    spec = spec_of(dict.fromkeys((*eager, *others), both), {FOO: count, BAR: count}, had)
    spared = Loads()
    for member_id in eager:
        spec.loads.drop(member_id)
        spared.put(member_id, len(had[member_id]))
    return new_target(assign_range, replace(spec, spared=spared, imbalance_percent=50))


def test_eager_members_keep_exactly_what_they_have() -> None:
    """Rule 9.4: the others get what is left, in the order of ranks; co-partitioned, with gaps."""
    target = sparing({"b": range(4, 8), "z": range(8, 12)}, eager="b", others="az")
    assert numbers(target, "b", FOO) == numbers(target, "b", BAR) == [4, 5, 6, 7]
    for topic in (FOO, BAR):
        assert numbers(target, "a", topic) == [0, 1, 2, 3]
        assert numbers(target, "z", topic) == [8, 9, 10, 11]


def test_an_eager_member_beyond_the_bounds_is_disturbed_in_all_topics() -> None:
    """Rule 9.4: with three members the even share is four, and half of it two."""
    target = sparing({"b": range(7), "c": range(7, 12)}, eager="bc", others="a")
    assert numbers(target, "c", FOO) == numbers(target, "c", BAR) == [7, 8, 9, 10, 11]
    for topic in (FOO, BAR):
        assert numbers(target, "a", topic) == [0, 1, 2, 3]
        assert numbers(target, "b", topic) == [4, 5, 6]


def test_an_eager_member_with_partitions_that_are_gone_is_not_spared() -> None:
    """The member has to rejoin anyway, and gets its block."""
    target = sparing({"b": range(8, 13)}, eager="b", others="a")
    assert numbers(target, "b", FOO) == [6, 7, 8, 9, 10, 11]
