"""The uniform assignor with different subscriptions (rule 9.1)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given

from coordinator.assignors import Target, heterogeneous
from coordinator.assignors.group_spec import Subscriber
from coordinator.assignors.heterogeneous import assign_heterogeneously
from coordinator.group.target_loads import Loads
from coordinator.interface.errors import GroupError
from kafka_codecs.error_codes import ErrorCode
from tests.support.assignor_strategies import (
    Case,
    cases,
    check_contract,
    new_target,
    spec_of,
)
from tests.support.group_values import partitions, topic_id

FOO, BAR, ZAR = topic_id("foo"), topic_id("bar"), topic_id("zar")


def subscribed_to(*names: str) -> Subscriber:
    return Subscriber(instance_id=None, topic_ids=frozenset(map(topic_id, names)))


@given(cases())
def test_everything_goes_to_one_subscriber(case: Case) -> None:
    """The target is valid, complete and disjoint."""
    check_contract(case, case.assigned_by(assign_heterogeneously))


@given(cases())
def test_no_single_move_improves_the_balance(case: Case) -> None:
    """A member that could take a partition has at most one partition less than its owner."""
    target = case.assigned_by(assign_heterogeneously)
    for (one, share), (other_id, other) in product(target.items(), case.members.items()):
        if any(partition.topic_id in other.topic_ids for partition in share):
            assert len(share) - len(target[other_id]) <= 1, (one, other_id)


@given(cases())
def test_an_unchanged_group_keeps_its_assignment(case: Case) -> None:
    """Assigning the same group again changes nothing."""
    target = case.assigned_by(assign_heterogeneously)
    assert assign_heterogeneously(spec_of(case.members, case.counts, target)) == {}


def test_a_balanced_target_is_kept() -> None:
    """A target that no single move can improve stays, even if it looks uneven."""
    members = {"a": subscribed_to("foo", "bar"), "b": subscribed_to("bar")}
    old = {"a": partitions({"foo": (0, 1, 2, 3)}), "b": partitions({"bar": (0, 1)})}
    assert assign_heterogeneously(spec_of(members, {FOO: 4, BAR: 2}, old)) == {}


def test_invalid_partitions_are_not_kept() -> None:
    """The leader of a group that converted may have assigned anything."""
    members = {"a": subscribed_to("foo"), "b": subscribed_to()}
    old = {"a": partitions({"foo": (-1, 0, 1)})}
    assert assign_heterogeneously(spec_of(members, {FOO: 1}, old)) == {
        "a": partitions({"foo": (0,)})
    }


def test_loads_that_differ_by_one_stay() -> None:
    """A move would only swap the larger load."""
    members = {"a": subscribed_to("foo", "bar"), "b": subscribed_to("foo")}
    old = {"a": partitions({"bar": (0,)}), "b": partitions({"foo": (0, 1)})}
    assert assign_heterogeneously(spec_of(members, {FOO: 2, BAR: 1}, old)) == {}


@pytest.mark.parametrize(("crowded", "other"), [("foo", "bar"), ("bar", "foo")])
def test_the_most_crowded_topic_is_assigned_first(
    monkeypatch: pytest.MonkeyPatch, crowded: str, other: str
) -> None:
    """The topic with most partitions per subscriber comes first. The others then fill the gaps, and
    no pass is needed."""
    monkeypatch.setattr(heterogeneous, "BALANCING_PASSES_MAX", 0)
    members = {"a": subscribed_to(crowded, other), "b": subscribed_to(other)}
    counts = {topic_id(crowded): 3, topic_id(other): 3}
    target = new_target(assign_heterogeneously, spec_of(members, counts, {}))
    assert target == {"a": partitions({crowded: (0, 1, 2)}), "b": partitions({other: (0, 1, 2)})}


def test_each_partition_goes_to_the_least_loaded_subscriber(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Among members with the fewest partitions, the smallest id comes first."""
    monkeypatch.setattr(heterogeneous, "BALANCING_PASSES_MAX", 0)
    members = {"a": subscribed_to("foo"), "b": subscribed_to("foo"), "c": subscribed_to("bar")}
    target = new_target(assign_heterogeneously, spec_of(members, {FOO: 5, BAR: 1}, {}))
    assert target == {
        "a": partitions({"foo": (0, 2, 4)}),
        "b": partitions({"foo": (1, 3)}),
        "c": partitions({"bar": (0,)}),
    }


def test_the_passes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of members that must each pass a partition on. If the passes are cut off, the target
    is still valid."""
    names = [f"t{n}" for n in range(6)]
    members = {f"m{n}": subscribed_to(*pair) for n, pair in enumerate(pairwise(names))}
    counts = {topic_id(name): 2 for name in names}
    old = {
        member_id: partitions(dict.fromkeys(names[n : n + 1 + (member_id == "m4")], (0, 1)))
        for n, member_id in enumerate(members)
    }
    case = Case(members, counts, old)
    monkeypatch.setattr(heterogeneous, "BALANCING_PASSES_MAX", 0)
    assert case.assigned_by(assign_heterogeneously) == old
    monkeypatch.setattr(heterogeneous, "BALANCING_PASSES_MAX", 16)
    target = case.assigned_by(assign_heterogeneously)
    check_contract(case, target)
    assert max(len(share) for share in target.values()) == 3


def test_an_unknown_topic_is_an_error() -> None:
    """UNKNOWN_SERVER_ERROR (rule 9.3)."""
    with pytest.raises(GroupError) as refusal:
        assign_heterogeneously(spec_of({"a": subscribed_to("foo")}, {BAR: 1}, {}))
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def sparing(old: Mapping[str, Iterable[int]], eager: str, percent: int) -> Target:
    """The new target of members with one topic, and one with a second topic. The eager members have
    exactly their target."""
    subscriber = Subscriber(instance_id=None, topic_ids=frozenset({FOO}))
    both = Subscriber(instance_id=None, topic_ids=frozenset({FOO, BAR}))
    had = {id_: partitions({"foo": numbers}) for id_, numbers in old.items()}
    spec = spec_of({**dict.fromkeys(old, subscriber), "x": both}, {FOO: 12, BAR: 0}, had)
    spared = Loads()
    for member_id in eager:
        spared.put(member_id, len(had[member_id]))
    return new_target(
        assign_heterogeneously, replace(spec, spared=spared, imbalance_percent=percent)
    )


def test_eager_members_are_disturbed_only_beyond_the_allowed_imbalance() -> None:
    """Rule 9.4: with 50 percent of a mean load of four, a member may have two more than the one
    that is always allowed."""
    old = {"a": range(5), "b": range(5, 12)}
    loads = {id_: len(share) for id_, share in sparing(old, "a", 50).items()}
    assert loads == {"a": 5, "b": 4, "x": 3}
    loads = {id_: len(share) for id_, share in sparing(old, "a", 0).items()}
    assert loads == {"a": 4, "b": 4, "x": 4}
