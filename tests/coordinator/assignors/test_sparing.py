"""Which eager members a new target disturbs (rule 9.4, DEV D81)."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.assignors.sparing import release
from coordinator.group.target_loads import Loads


def loads_of(name: str, sizes: list[int]) -> Loads:
    made = Loads()
    for n, size in enumerate(sizes):
        made.put(f"{name}{n}", size)
    return made


def loads_released(eager: list[int], others: list[int], total: int, percent: int = 50) -> list[int]:
    """The loads of the eager members that are disturbed, greatest first."""
    spared, rest_of_group = loads_of("e", eager), loads_of("n", others)
    sizes = {id_: spared.get(id_) or 0 for id_ in spared}
    rest = release(spared, rest_of_group, total, percent)
    assert rest == total - spared.total()
    return sorted((sizes[id_] for id_ in sizes.keys() - {*spared}), reverse=True)


def test_nobody_is_disturbed_if_the_others_can_take_what_a_member_leaves() -> None:
    """Two native members take six partitions more: nine each, which is 50 % above the even
    share."""
    assert loads_released([6] * 5, [6, 6], 48) == []


def test_a_joiner_takes_from_the_others_first() -> None:
    """Two native members have nine each, and the joiner nothing."""
    assert loads_released([6] * 5, [9, 9, 0], 48) == []


def test_the_first_native_member_disturbs_one_eager_member() -> None:
    """The native member needs three partitions. Kafka takes one from each of six members."""
    assert loads_released([7, 7, 7, 7, 7, 7, 6], [0], 48) == [7]


def test_a_single_native_member_cannot_take_everything() -> None:
    """The native member would have twice its share. The eager member with fewest partitions
    helps."""
    assert loads_released([7, 6, 6, 6, 6, 5], [6], 48) == [5]


def test_without_an_allowed_imbalance_the_loads_stay_within_one() -> None:
    """Among targets that are as balanced, it is the one that spares most."""
    assert loads_released([4, 4, 4], [5, 3], 20, percent=0) == []
    assert loads_released([5, 4, 4], [4], 16, percent=0) == [5]


def test_a_member_outside_the_bounds_is_never_spared() -> None:
    """A target of the classic group could stay uneven for ever."""
    assert loads_released([12, 2, 6, 6], [6, 4], 36, percent=50) == [12, 2]


def test_no_member_is_left_without_partitions_for_the_others_sake() -> None:
    """Whatever imbalance is allowed."""
    assert loads_released([4, 4, 0], [4], 12, percent=100) == [0]


def test_a_group_of_eager_members_alone_disturbs_some_of_them() -> None:
    """DEV D6: some member has to get what another one left."""
    assert loads_released([6] * 7, [], 48) == [6, 6]
    assert loads_released([6] * 7, [], 42) == []


@given(
    st.lists(st.integers(0, 12), max_size=5),
    st.lists(st.integers(0, 12), max_size=3),
    st.integers(0, 40),
    st.sampled_from([0, 20, 50, 100]),
)
def test_no_smaller_set_of_members_would_do(
    eager: list[int], others: list[int], total: int, percent: int
) -> None:
    """Compared with an oracle that tries all sets."""
    count = len(eager) + len(others)
    if not count or sum(eager) > total:
        return
    slack = total * percent // (100 * count)
    share = total // count
    load_min, load_max = max(share - slack, min(share, 1)), -(-total // count) + slack

    def will_do(disturbed: tuple[int, ...]) -> bool:
        undisturbed = [load for n, load in enumerate(eager) if n not in disturbed]
        sharing, rest = count - len(undisturbed), total - sum(undisturbed)
        in_bounds = all(load_min <= load <= load_max for load in undisturbed)
        return in_bounds and load_min * sharing <= rest <= load_max * sharing

    fewest = next(
        size
        for size in range(len(eager) + 1)
        if any(will_do(combination) for combination in combinations(range(len(eager)), size))
    )
    assert len(loads_released(eager, others, total, percent)) == fewest


@pytest.mark.parametrize("percent", [0, 50])
def test_the_others_can_always_share_the_rest(percent: int) -> None:
    spared, others = loads_of("e", [9, 9, 9]), loads_of("n", [0] * 9)
    rest = release(spared, others, 27, percent)
    assert rest == 27 - spared.total()
    slack = 27 * percent // 1200
    assert (2 - slack) * len(others) <= rest <= (3 + slack) * len(others)
