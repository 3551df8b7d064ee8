"""Members by load."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.target_loads import Loads

CHANGES = st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 3)))


def change(loads: Loads, expected: dict[str, int], member_id: str, load: int | None) -> None:
    """The last member to be put comes last within its load, as in a dict that dropped it first."""
    expected.pop(member_id, None)
    if load is None:
        loads.drop(member_id)
    else:
        loads.put(member_id, load)
        expected[member_id] = load


def check(loads: Loads, expected: dict[str, int]) -> None:
    assert len(loads) == len(expected)
    for load in range(-1, 5):
        assert list(loads.at(load)) == [id_ for id_, own in expected.items() if own == load]
        by_load = sorted(expected, key=lambda id_: -expected[id_])
        above = [id_ for id_ in by_load if expected[id_] > load]
        assert list(loads.above(load)) == above
        assert loads.count_above(load) == len(above)
        assert list(loads.below(load)) == [id_ for id_ in by_load if expected[id_] < load]


@given(CHANGES, CHANGES, CHANGES)
def test_forks_change_independently(
    at_first: list[tuple[str, int | None]],
    then: list[tuple[str, int | None]],
    later: list[tuple[str, int | None]],
) -> None:
    """Each fork finds the members with more or less load, greatest load first, in the order of
    their targets."""
    loads, expected = Loads(), dict[str, int]()
    for drawn in at_first:
        change(loads, expected, *drawn)
    fork, expected_of_fork = loads.fork(), dict(expected)
    for drawn in then:
        change(fork, expected_of_fork, *drawn)
    second, expected_of_second = fork.fork(), dict(expected_of_fork)
    for drawn in later:
        change(second, expected_of_second, *drawn)
    check(loads, expected)
    check(fork, expected_of_fork)
    check(second, expected_of_second)
    assert (loads == fork) is (expected == expected_of_fork)


def test_a_load_without_members_has_no_row() -> None:
    """The number of changes does not matter."""
    loads = Loads()
    for load in range(100):
        loads.put("a", load)
    assert repr(loads) == "Loads({99: {'a': None}})"
    assert loads != {99: ["a"]}


def test_the_heaviest_the_lightest_and_the_sum() -> None:
    """Among several with the same load, the one that got its target first comes first."""
    loads = Loads()
    for member_id, load in {"a": 2, "b": 5, "c": 2, "d": 5}.items():
        loads.put(member_id, load)
    assert (loads.heaviest(), loads.lightest(), loads.total()) == ("b", "a", 14)
    assert (loads.get("d"), loads.get("e")) == (5, None)
    assert ({*loads}, {*loads.sizes()}) == ({"a", "b", "c", "d"}, {2, 5})
