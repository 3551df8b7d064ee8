"""Partitions go to members in the racks of their replicas (rule 9.5, DEV D84)."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.assignors import ASSIGNORS, Target, racks
from coordinator.assignors.group_spec import GroupSpec, Racks, Subscriber
from coordinator.assignors.racks import bring_home
from coordinator.group.target_loads import Loads
from coordinator.interface.topics import Partition
from tests.support.assignor_strategies import (
    Case,
    cases,
    check_contract,
    moves,
    new_target,
    spec_of,
)
from tests.support.group_values import partitions, topic_id

FOO, BAR = topic_id("foo"), topic_id("bar")
A, B, C = map(frozenset, "abc")
AB, BC, CA = A | B, B | C, C | A
Shares = dict[str, set[Partition]]
RACKS = st.frozensets(st.sampled_from("abcd"))


@st.composite
def shares_and_racks(
    draw: st.DrawFn,
) -> tuple[Shares, dict[str, str], list[Racks]]:
    """The shares of members, the racks of members and of shares."""
    homes = draw(st.lists(RACKS, max_size=9))
    member_ids = [f"m{n}" for n in range(draw(st.integers(1, 5)))]
    shares: Shares = {member_id: set() for member_id in member_ids}
    for number in range(len(homes)):
        shares[draw(st.sampled_from(member_ids))].add(Partition(FOO, number))
    with_rack = draw(st.frozensets(st.sampled_from(member_ids)))
    rack_of = {member_id: draw(st.sampled_from("abc")) for member_id in sorted(with_rack)}
    return shares, rack_of, homes


def of(homes: list[Racks]) -> Callable[[Partition], Racks]:
    """The racks of a partition of the topic foo."""
    return lambda partition: homes[partition.number]


def foo(*numbers: int) -> set[Partition]:
    return {Partition(FOO, number) for number in numbers}


def at_home(shares: Shares, rack_of: Mapping[str, str], homes: list[Racks]) -> int:
    return sum(rack_of.get(id_) in homes[p.number] for id_, share in shares.items() for p in share)


def most_at_home(shares: Shares, rack_of: Mapping[str, str], homes: list[Racks]) -> int:
    """How many partitions are at home after the best of all exchanges: a largest matching of shares
    and places."""
    places = [rack_of.get(id_) for id_, share in shares.items() for _ in share]
    taken: dict[int, int] = {}

    def finds_place(share: int, seen: set[int]) -> bool:
        for place, rack in enumerate(places):
            if rack in homes[share] and place not in seen:
                seen.add(place)
                if place not in taken or finds_place(taken[place], seen):
                    taken[place] = share
                    return True
        return False

    return sum(finds_place(share, set()) for share in range(len(homes)))


@given(shares_and_racks())
def test_no_exchange_brings_more_home(
    drawn: tuple[Shares, dict[str, str], list[Racks]],
) -> None:
    """Every member keeps the number of its shares, and a second time nothing moves."""
    before, rack_of, homes = drawn
    shares = deepcopy(before)
    bring_home(shares, rack_of, of(homes))
    assert {id_: len(share) for id_, share in shares.items()} == {
        id_: len(share) for id_, share in before.items()
    }
    given = sorted(p.number for share in shares.values() for p in share)
    assert given == list(range(len(homes)))
    assert at_home(shares, rack_of, homes) == most_at_home(before, rack_of, homes)
    again = deepcopy(shares)
    bring_home(again, rack_of, of(homes))
    assert again == shares


def test_a_chain_of_exchanges_may_be_needed() -> None:
    """None of its exchanges alone brings more home. What is at home nowhere stays where it is."""
    shares = {"m1": foo(0, 3), "m2": foo(1), "m3": foo(2)}
    homes = [B, BC, CA, frozenset[str]()]
    bring_home(shares, {"m1": "a", "m2": "b", "m3": "c"}, of(homes))
    assert shares == {"m1": foo(2, 3), "m2": foo(0), "m3": foo(1)}


def test_a_long_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shares are valid all the same."""
    monkeypatch.setattr(racks, "LOOKS_MAX", 0)
    shares = {"m1": foo(0), "m2": foo(1)}
    bring_home(shares, {"m1": "a", "m2": "b"}, of([B, A]))
    assert shares == {"m1": foo(0), "m2": foo(1)}


def in_racks(case: Case, member_racks: list[str | None], homes: list[Racks]) -> Case:
    members = {
        id_: replace(member, rack_id=rack)
        for (id_, member), rack in zip(case.members.items(), member_racks, strict=False)
    }
    return case._replace(members=members)


def spec_with_racks(case: Case, homes: list[Racks]) -> GroupSpec:
    return replace(
        case.spec,
        racks={
            id_: tuple(homes[(n + m) % len(homes)] for n in range(count))
            for m, (id_, count) in enumerate(case.counts.items())
        },
    )


MEMBER_RACKS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=6, max_size=6)
HOMES = st.lists(RACKS, min_size=1, max_size=7)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(case=cases(), member_racks=MEMBER_RACKS, homes=HOMES)
def test_racks_change_no_load(
    name: str, case: Case, member_racks: list[str | None], homes: list[Racks]
) -> None:
    """The target is valid, and the loads are those of a group without racks."""
    case = in_racks(case, member_racks, homes)
    plain = case.assigned_by(ASSIGNORS[name])
    target = new_target(ASSIGNORS[name], spec_with_racks(case, homes))
    check_contract(case, target)
    assert {id_: len(share) for id_, share in target.items()} == {
        id_: len(share) for id_, share in plain.items()
    }


@pytest.mark.parametrize("name", ASSIGNORS)
@given(case=cases(), member_racks=MEMBER_RACKS, homes=HOMES)
def test_an_unchanged_group_keeps_its_assignment(
    name: str, case: Case, member_racks: list[str | None], homes: list[Racks]
) -> None:
    """Assigning the same group again changes nothing, unless the exchange has made a better balance
    possible. With different subscriptions, moves of single partitions do not find each."""
    case = in_racks(case, member_racks, homes)
    target = new_target(ASSIGNORS[name], spec_with_racks(case, homes))
    changed = ASSIGNORS[name](spec_with_racks(case._replace(old=target), homes))
    assert not changed or unevenness({**target, **changed}) < unevenness(target)


def unevenness(target: Target) -> int:
    """A measure that grows with the differences between the loads."""
    return sum(len(share) ** 2 for share in target.values())


@given(case=cases(), member_racks=MEMBER_RACKS, homes=HOMES)
def test_topics_that_range_assigns_alike_stay_co_partitioned(
    case: Case, member_racks: list[str | None], homes: list[Racks]
) -> None:
    """A number goes where every one of them has a replica."""
    counts = dict.fromkeys(case.counts, 5)
    common = frozenset(counts)
    members = {id_: replace(member, topic_ids=common) for id_, member in case.members.items()}
    case = in_racks(Case(members, counts, {}), member_racks, homes)
    target = new_target(ASSIGNORS["range"], spec_with_racks(case, homes))
    for share in target.values():
        numbers = {id_: {p.number for p in share if p.topic_id == id_} for id_ in counts}
        assert len({frozenset(number) for number in numbers.values()}) == 1


def foo_at(member_racks: Mapping[str, str | None], homes: list[Racks], old: Target) -> GroupSpec:
    members = {
        id_: Subscriber(instance_id=None, rack_id=rack, topic_ids=frozenset({FOO}))
        for id_, rack in member_racks.items()
    }
    return replace(spec_of(members, {FOO: len(homes)}, old), racks={FOO: tuple(homes)})


def test_a_newcomer_gets_the_partitions_of_its_rack() -> None:
    """The others keep all that is at home with them."""
    old = {"m1": partitions({"foo": (0, 1, 2, 3, 4, 5)})}
    spec = foo_at({"m1": "a", "m2": "b"}, [B, A, B, A, B, A], old)
    target = new_target(ASSIGNORS["uniform"], spec)
    assert target == {"m1": partitions({"foo": (1, 3, 5)}), "m2": partitions({"foo": (0, 2, 4)})}
    assert moves(old, target) == 3


@pytest.mark.parametrize("name", ASSIGNORS)
def test_spared_members_exchange_nothing(name: str) -> None:
    """Rule 9.4: an eager member would have to give up all that it has."""
    old = {"m1": partitions({"foo": (0, 1)}), "m2": partitions({"foo": (2, 3)})}
    spec = foo_at({"m1": "a", "m2": "b"}, [B, A, A, B], old)
    for spared, is_spared in (({"m1"}, True), (set[str](), False)):
        eager, loads = Loads(), Loads()
        for member_id in old:
            (eager if member_id in spared else loads).put(member_id, 2)
        changed = ASSIGNORS[name](replace(spec, loads=loads, spared=eager, imbalance_percent=50))
        assert (changed == {}) is is_spared


def test_balance_precedes_racks() -> None:
    """A member that is alone in its rack gets no more than its share."""
    for name, assignor in ASSIGNORS.items():
        target = new_target(assignor, foo_at({"m1": "a", "m2": "b"}, [A, A, A, A], {}))
        assert [len(target[id_]) for id_ in ("m1", "m2")] == [2, 2], name


def test_members_with_different_subscriptions_exchange_nothing() -> None:
    """The other could not take the partition that comes back."""
    members = {
        "m1": Subscriber(instance_id=None, rack_id="a", topic_ids=frozenset({FOO, BAR})),
        "m2": Subscriber(instance_id=None, rack_id="b", topic_ids=frozenset({FOO})),
    }
    old = {"m1": partitions({"foo": (0,), "bar": (0,)}), "m2": partitions({"foo": (1,)})}
    spec = replace(spec_of(members, {FOO: 2, BAR: 1}, old), racks={FOO: (B, A), BAR: (A,)})
    assert ASSIGNORS["uniform"](spec) == {}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_an_unknown_rack_does_not_matter(name: str) -> None:
    """The image of the topics may be older than the number of partitions."""
    spec = foo_at({"m1": "a", "m2": None}, [A, B, A], {})
    old = new_target(ASSIGNORS[name], replace(spec, racks={FOO: (A,)}))
    assert sum(map(len, old.values())) == 3
