"""The uniform assignor with equal subscriptions (rule 9.1)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.assignors import Target
from coordinator.assignors.group_spec import GroupSpec, Subscriber
from coordinator.assignors.uniform import assign_uniformly
from coordinator.group.target_loads import Loads
from coordinator.interface.errors import GroupError
from coordinator.interface.topics import Partition
from kafka_codecs.error_codes import ErrorCode
from tests.support.assignor_strategies import (
    Case,
    cases,
    check_contract,
    fewest_moves,
    moves,
    new_target,
    spec_of,
)
from tests.support.group_values import partitions, topic_id

FOO, BAR = topic_id("foo"), topic_id("bar")
K = TypeVar("K")
V = TypeVar("V")


def loads(target: Target) -> list[int]:
    return sorted(len(share) for share in target.values())


def subscribed_to_foo(*member_ids: str) -> dict[str, Subscriber]:
    return {id_: Subscriber(instance_id=None, topic_ids=frozenset({FOO})) for id_ in member_ids}


@given(cases())
def test_everything_goes_to_one_subscriber(case: Case) -> None:
    """Valid, complete, disjoint."""
    check_contract(case, case.assigned_by(assign_uniformly))


@given(cases(is_homogeneous=True))
def test_the_loads_are_within_one(case: Case) -> None:
    """This holds for all members, over all topics together."""
    lowest, *_, highest = [*loads(case.assigned_by(assign_uniformly))] * 2
    assert highest - lowest <= 1


@given(cases(is_homogeneous=True))
def test_a_member_keeps_partitions_up_to_its_quota(case: Case) -> None:
    """A member loses only nonexistent partitions and those beyond its quota."""
    target = case.assigned_by(assign_uniformly)
    for member_id, held in case.kept_partitions.items():
        assert target[member_id] <= held or held <= target[member_id]


@given(cases(is_homogeneous=True))
def test_no_partition_moves_without_need(case: Case) -> None:
    """No balanced target needs fewer moves."""
    target = case.assigned_by(assign_uniformly)
    assert moves(case.kept_partitions, target) == fewest_moves(
        case.kept_partitions, len(case.subscribed_partitions)
    )


def all_balanced_targets(case: Case) -> Iterator[Target]:
    """Every distribution of the partitions in which all loads differ by at most one."""
    deck = sorted(case.subscribed_partitions)
    for hands in product(case.members, repeat=len(deck)):
        dealt = {
            id_: frozenset(p for p, hand in zip(deck, hands, strict=True) if hand == id_)
            for id_ in case.members
        }
        if loads(dealt)[-1] - loads(dealt)[0] <= 1:
            yield dealt


@st.composite
def small_cases(draw: st.DrawFn) -> Case:
    """Groups small enough to try all targets."""
    counts = {FOO: draw(st.integers(0, 4)), BAR: draw(st.integers(0, 2))}
    both = Subscriber(instance_id=None, topic_ids=frozenset(counts))
    members = dict.fromkeys("abc"[: draw(st.integers(1, 3))], both)
    old: dict[str, set[Partition]] = {}
    for id_, number in product(counts, range(5)):
        old.setdefault(draw(st.sampled_from("abcd")), set()).add(Partition(id_, number))
    return Case(members, counts, {id_: frozenset(share) for id_, share in old.items()})


@given(small_cases())
def test_no_target_needs_fewer_moves(case: Case) -> None:
    """Compared with an oracle that tries all balanced targets."""
    best = min(moves(case.kept_partitions, target) for target in all_balanced_targets(case))
    assert moves(case.kept_partitions, case.assigned_by(assign_uniformly)) == best
    assert fewest_moves(case.kept_partitions, len(case.subscribed_partitions)) == best


@given(cases(is_homogeneous=True))
def test_the_larger_load_stays_with_members_that_hold_more(case: Case) -> None:
    """No member ends with less than a member that held less before (KAFKA-18688)."""
    target, held = case.assigned_by(assign_uniformly), case.kept_partitions
    for one, other in product(case.members, repeat=2):
        if len(target[one]) < len(target[other]):
            assert len(held[one]) <= len(held[other])


@given(cases(is_homogeneous=True), st.randoms(use_true_random=False))
def test_a_balanced_target_stays(case: Case, dice: Random) -> None:
    """The distribution of the partitions does not matter, and neither does which members have the
    larger load."""
    deck, hands = sorted(case.subscribed_partitions), sorted(case.members)
    dice.shuffle(deck)
    dice.shuffle(hands)
    old = {id_: frozenset(deck[n :: len(hands)]) for n, id_ in enumerate(hands)}
    assert assign_uniformly(spec_of(case.members, case.counts, old)) == {}


@given(cases(is_homogeneous=True))
def test_an_unchanged_group_keeps_its_assignment(case: Case) -> None:
    """Assigning the same group again changes nothing."""
    target = case.assigned_by(assign_uniformly)
    assert assign_uniformly(spec_of(case.members, case.counts, target)) == {}


def test_the_larger_load_does_not_move() -> None:
    """No partition moves to the member with the smallest id."""
    old = {"a": partitions({"foo": (1,)}), "b": partitions({"foo": (0, 2)})}
    assert assign_uniformly(spec_of(subscribed_to_foo("a", "b"), {FOO: 3}, old)) == {}


def test_the_member_with_most_partitions_keeps_the_larger_load() -> None:
    """Three members hold three or more, and two may keep three. Member b or c gives way, not a."""
    sizes = {"a": 4, "b": 3, "c": 3, "d": 1, "e": 1}
    numbers = iter(range(12))
    old = {
        id_: partitions({"foo": [next(numbers) for _ in range(size)]})
        for id_, size in sizes.items()
    }
    target = new_target(assign_uniformly, spec_of(subscribed_to_foo(*sizes), {FOO: 12}, old))
    assert len(target["a"]) == 3
    assert loads(target) == [2, 2, 2, 3, 3]


def test_a_newcomer_gets_its_share_with_the_fewest_moves() -> None:
    """Two of six partitions move to the third member, none between the others."""
    old = {"a": partitions({"foo": (0, 2, 4)}), "b": partitions({"foo": (1, 3, 5)})}
    spec = spec_of(subscribed_to_foo("a", "b", "c"), {FOO: 6}, old)
    target = new_target(assign_uniformly, spec)
    assert loads(target) == [2, 2, 2]
    assert target["a"] < old["a"]
    assert target["b"] < old["b"]


def test_invalid_partitions_are_not_kept() -> None:
    """The leader of a group that converted may have assigned anything."""
    old = {"a": partitions({"foo": (-1, 0, 2**31 - 1), "bar": (0,)})}
    spec = spec_of(subscribed_to_foo("a"), {FOO: 1}, old)
    assert assign_uniformly(spec) == {"a": partitions({"foo": (0,)})}


class Guarded(Mapping[K, V]):
    """A mapping that counts look-ups and forbids iteration."""

    def __init__(self, rows: Mapping[K, V]) -> None:
        self.rows = rows
        self.asked = 0

    def __getitem__(self, key: K) -> V:
        self.asked += 1
        return self.rows[key]

    def __iter__(self) -> Iterator[K]:
        pytest.fail("the assignor iterated over all members")

    def __len__(self) -> int:
        return len(self.rows)


@pytest.mark.parametrize("changes", ["m999 leaves", "m999 joins", "the topic grows by 5"])
def test_the_work_follows_the_change(changes: str) -> None:
    """The assignor visits only members that get or give a partition, not all thousand."""
    members = subscribed_to_foo(*(f"m{n:03}" for n in range(1_000)))
    counts = {FOO: 10_000}
    old = new_target(assign_uniformly, spec_of(members, counts, {}))
    match changes:
        case "m999 leaves":
            members.popitem()
            old = {id_: share for id_, share in old.items() if id_ in members}
        case "m999 joins":
            others = subscribed_to_foo(*list(members)[:-1])
            old = new_target(assign_uniformly, spec_of(others, counts, {}))
        case _:
            counts = {FOO: 10_005}
    spec = spec_of(members, counts, old)
    guarded_members, guarded_target = Guarded(members), Guarded(old)
    changed = assign_uniformly(
        GroupSpec(
            members=guarded_members,
            subscriber_counts=spec.subscriber_counts,
            partition_counts=counts,
            target=guarded_target,
            owners=spec.owners,
            loads=spec.loads,
        )
    )
    assert len(changed) <= 11
    assert guarded_members.asked == 0
    assert guarded_target.asked <= len(changed)
    after = {**{id_: old.get(id_, frozenset()) for id_ in members}, **changed}
    assert loads(after)[-1] - loads(after)[0] <= 1


def test_an_unknown_topic_is_an_error() -> None:
    """UNKNOWN_SERVER_ERROR (rule 9.3)."""
    spec = spec_of(subscribed_to_foo("a"), {BAR: 1}, {})
    with pytest.raises(GroupError) as refusal:
        assign_uniformly(spec)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_no_members_no_target() -> None:
    """An empty group has an empty target."""
    assert assign_uniformly(spec_of({}, {FOO: 3}, {})) == {}


def sparing(eager: Mapping[str, int], others: Mapping[str, int], percent: int | None) -> Target:
    """The new loads of a group whose eager members have exactly their target."""
    numbers = iter(range(48))
    sizes = {**eager, **others}
    old = {id_: partitions({"foo": [next(numbers) for _ in range(n)]}) for id_, n in sizes.items()}
    spec = spec_of(subscribed_to_foo(*sizes), {FOO: 48}, old)
    spared = Loads()
    for member_id, load in eager.items():
        spec.loads.drop(member_id)
        spared.put(member_id, load)
    return assign_uniformly(replace(spec, spared=spared, imbalance_percent=percent))


def test_eager_members_keep_exactly_what_they_have() -> None:
    """Rule 9.4: the native members share what a member left, evenly."""
    changed = sparing(dict.fromkeys("abcde", 6), {"x": 6, "y": 6}, 50)
    assert {id_: len(share) for id_, share in changed.items()} == {"x": 9, "y": 9}


def test_as_few_eager_members_as_possible_are_disturbed() -> None:
    """Rule 9.4: the first native member takes from one of them, and shares evenly with it."""
    changed = sparing(dict.fromkeys("abcdef", 7) | {"g": 6}, {"x": 0}, 50)
    assert sorted(len(share) for share in changed.values()) == [3, 4]
    assert "x" in changed


def test_of_equally_balanced_targets_one_that_spares_eager_members() -> None:
    """Rule 9.4, without any imbalance, and so also where every member rejoins anyway: the larger
    loads go to native members."""
    for percent in (0, None):
        changed = sparing(dict.fromkeys("abcde", 7), {"x": 3, "y": 4}, percent)
        assert {id_: len(share) for id_, share in changed.items()} == {"x": 6, "y": 7}
