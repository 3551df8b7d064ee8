"""The target by partition."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.target_owners import BLOCK, Owners
from coordinator.interface.topics import Partition
from tests.support.group_values import topic_id

FOO, BAR = sorted((topic_id("foo"), topic_id("bar")))
NUMBERS = st.sampled_from([0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
PARTITIONS = st.builds(Partition, st.sampled_from([FOO, BAR]), NUMBERS)
CHANGES = st.lists(st.tuples(st.booleans(), st.lists(PARTITIONS), st.sampled_from("ab")))
COUNTS = st.dictionaries(st.sampled_from([FOO, BAR]), NUMBERS | NUMBERS.map(lambda n: n + 1))


def change(
    owners: Owners,
    expected: dict[Partition, str],
    is_given: bool,
    partitions: list[Partition],
    member_id: str,
) -> None:
    if is_given:
        owners.give(partitions, member_id)
        expected.update(dict.fromkeys(partitions, member_id))
    else:
        owners.take(partitions, member_id)
        for partition in partitions:
            if expected.get(partition) == member_id:
                del expected[partition]


def check(owners: Owners, expected: dict[Partition, str], counts: dict[UUID, int]) -> None:
    assert {partition: owners[partition] for partition in expected} == expected
    beyond = [p for p in expected if p.number >= counts.get(p.topic_id, 0)]
    assert sorted(owners.beyond(counts)) == sorted(beyond)
    for id_, count in counts.items():
        everything = [Partition(id_, number) for number in range(count)]
        assert list(owners.missing(id_, count)) == [p for p in everything if p not in expected]


@given(CHANGES, CHANGES, COUNTS)
def test_owned_and_unowned_partitions_are_found(
    changes: list[tuple[bool, list[Partition], str]],
    later: list[tuple[bool, list[Partition], str]],
    counts: dict[UUID, int],
) -> None:
    """This includes owned partitions that no longer exist. A fork changes independently."""
    owners, expected = Owners(), dict[Partition, str]()
    for drawn in changes:
        change(owners, expected, *drawn)
    fork, expected_of_fork = owners.fork(), dict(expected)
    for drawn in later:
        change(fork, expected_of_fork, *drawn)
    check(owners, expected, counts)
    check(fork, expected_of_fork, counts)
    assert (owners == fork) is (expected == expected_of_fork)


def test_the_old_owner_may_be_removed_after_the_new_one_is_set() -> None:
    """Removing the old owner does not remove the new one."""
    owners = Owners()
    moved = Partition(FOO, 0)
    owners.give([moved], "a")
    owners.give([moved], "b")
    owners.take([moved], "a")
    assert owners[moved] == "b"
    assert list(owners.missing(FOO, 1)) == []
    owners.take([moved], "b")
    with pytest.raises(KeyError):
        owners[moved]


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31)])
def test_any_number_costs_the_same(number: int) -> None:
    """The leader of a classic group may have assigned partitions that do not exist."""
    owners = Owners()
    owners.give([Partition(FOO, number)], "a")
    assert list(owners.beyond({FOO: 3})) == [Partition(FOO, number)]
    assert max(owned.bit_length() for owned in owners._owned.values()) <= BLOCK
    assert repr(owners).startswith("Owners({Partition(")
