"""The range assignor (spec 9.2)."""

from hypothesis import given

from coordinator.assignors.range import assign_range
from coordinator.assignors.subscriber import Subscriber
from coordinator.topics import Partition
from tests.support.assignor_strategies import Case, cases, check_contract
from tests.support.group_values import partitions, topic_id

FOO, BAR = topic_id("foo"), topic_id("bar")


@given(cases())
def test_everything_goes_to_one_subscriber(case: Case) -> None:
    """Valid, complete, disjoint."""
    check_contract(case, assign_range(*case))


@given(cases())
def test_blocks_in_the_order_of_ranks(case: Case) -> None:
    """Per topic a contiguous block each; the first ones get one more; static members, by
    instance id, come before dynamic ones, by member id."""
    target = assign_range(*case)
    for topic_id_, count in case.counts.items():
        subscribers = [id_ for id_, m in case.members.items() if topic_id_ in m.topic_ids]
        static = sorted(
            (m.instance_id, id_)
            for id_, m in case.members.items()
            if id_ in subscribers and m.instance_id is not None
        )
        dynamic = sorted(id_ for id_ in subscribers if case.members[id_].instance_id is None)
        numbers: list[int] = []
        sizes = []
        for member_id in [*(id_ for _, id_ in static), *dynamic]:
            mine = sorted(p.number for p in target[member_id] if p.topic_id == topic_id_)
            sizes.append(len(mine))
            numbers += mine
        if subscribers:
            assert numbers == list(range(count))
            assert sizes == sorted(sizes, reverse=True)
            assert sizes[0] - sizes[-1] <= 1


@given(cases())
def test_the_past_does_not_matter(case: Case) -> None:
    """Stickiness exists only as far as ids are stable."""
    assert assign_range(case.members, case.counts, {}) == assign_range(*case)


def test_equal_topics_are_co_partitioned() -> None:
    """Equal subscribers, equal counts: equal numbers."""
    both = frozenset({FOO, BAR})
    members = {id_: Subscriber(instance_id=None, topic_ids=both) for id_ in ("a", "b")}
    target = assign_range(members, {FOO: 3, BAR: 3}, {})
    assert target["a"] == partitions({"foo": (0, 1), "bar": (0, 1)})
    assert target["b"] == {Partition(FOO, 2), Partition(BAR, 2)}


def test_no_members_no_target() -> None:
    """An empty group has an empty target."""
    assert assign_range({}, {FOO: 3}, {"a": frozenset({Partition(FOO, 0)})}) == {}
