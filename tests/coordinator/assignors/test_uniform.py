"""The uniform assignor (spec 9.1)."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from coordinator.assignors.subscriber import Subscriber
from coordinator.assignors.uniform import assign_uniformly
from tests.support.assignor_strategies import Case, cases, check_contract
from tests.support.group_values import partitions, topic_id

FOO = topic_id("foo")


@given(cases())
def test_everything_goes_to_one_subscriber(case: Case) -> None:
    """Valid, complete, disjoint."""
    check_contract(case, assign_uniformly(*case))


@given(cases(is_homogeneous=True))
def test_equal_subscriptions_make_equal_sizes(case: Case) -> None:
    """They differ by one at most."""
    by_size = sorted(len(mine) for mine in assign_uniformly(*case).values())
    assert by_size[-1] - by_size[0] <= 1


@given(cases(is_homogeneous=True))
def test_a_member_keeps_what_fits_its_quota(case: Case) -> None:
    """It loses only partitions that are gone and those beyond its quota."""
    target = assign_uniformly(*case)
    for member_id, mine in target.items():
        still_there = case.old.get(member_id, frozenset()) & case.subscribed
        assert mine <= still_there or still_there <= mine


@given(cases())
def test_nothing_moves_once_it_is_assigned(case: Case) -> None:
    """The same group assigned again: the same target (KAFKA-18688)."""
    target = assign_uniformly(*case)
    assert assign_uniformly(case.members, case.counts, target) == target


@given(cases(is_homogeneous=False))
def test_no_single_move_improves_the_balance(case: Case) -> None:
    """Between different subscriptions: who could take a partition has at most one less."""
    target = assign_uniformly(*case)
    for member_id, mine in target.items():
        for partition in mine:
            for other_id, other in case.members.items():
                if partition.topic_id in other.topic_ids:
                    assert len(mine) - len(target[other_id]) <= 1, (member_id, other_id)


@given(cases(is_homogeneous=True), st.randoms(use_true_random=False))
def test_whatever_is_balanced_within_one_stays(case: Case, dice: Random) -> None:
    """However the partitions are dealt, and whoever has the one more."""
    deck, hands = sorted(case.subscribed), sorted(case.members)
    dice.shuffle(deck)
    dice.shuffle(hands)
    old = {id_: frozenset(deck[n :: len(hands)]) for n, id_ in enumerate(hands)}
    assert assign_uniformly(case.members, case.counts, old) == old


def test_the_one_more_goes_to_who_has_it() -> None:
    """Sizes within one are balanced: no partition moves to the member that comes first."""
    members = {id_: Subscriber(instance_id=None, topic_ids=frozenset({FOO})) for id_ in ("a", "b")}
    old = {"a": partitions({"foo": (1,)}), "b": partitions({"foo": (0, 2)})}
    assert assign_uniformly(members, {FOO: 3}, old) == old


def test_a_newcomer_gets_its_share_with_the_fewest_moves() -> None:
    """Two of six partitions move to the third member, none between the others."""
    members = {id_: Subscriber(instance_id=None, topic_ids=frozenset({FOO})) for id_ in "abc"}
    old = {"a": partitions({"foo": (0, 2, 4)}), "b": partitions({"foo": (1, 3, 5)})}
    target = assign_uniformly(members, {FOO: 6}, old)
    assert [len(target[id_]) for id_ in "abc"] == [2, 2, 2]
    assert target["a"] < old["a"]
    assert target["b"] < old["b"]


def test_no_members_no_target() -> None:
    """An empty group has an empty target."""
    assert assign_uniformly({}, {FOO: 3}, {"a": partitions({"foo": (0,)})}) == {}
