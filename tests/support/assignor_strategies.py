"""Groups for the assignors: members, partition counts and what the members had before."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from coordinator.assignors import Subscriber, Target
from coordinator.topics import Partition
from tests.support.group_values import topic_id

TOPIC_IDS = sorted(topic_id(name) for name in ("foo", "bar", "zar", "qux"))


class Case(NamedTuple):
    """The input of an assignor."""

    members: Mapping[str, Subscriber]
    counts: Mapping[UUID, int]
    old: Target

    @property
    def subscribed(self) -> set[Partition]:
        """Every partition that somebody wants."""
        topics = {id_ for member in self.members.values() for id_ in member.topic_ids}
        return {Partition(id_, number) for id_ in topics for number in range(self.counts[id_])}


@st.composite
def cases(draw: st.DrawFn, *, is_homogeneous: bool | None = None) -> Case:
    """A group, half of the time with equal subscriptions; `old` may name members, topics and
    partitions that are gone."""
    if is_homogeneous is None:
        is_homogeneous = draw(st.booleans())
    counts = {id_: draw(st.integers(0, 7)) for id_ in TOPIC_IDS}
    topic_sets = st.frozensets(st.sampled_from(TOPIC_IDS))
    common = draw(topic_sets)
    members = {
        f"m{n}": Subscriber(
            instance_id=draw(st.none() | st.just(f"i{9 - n}")),
            topic_ids=common if is_homogeneous else draw(topic_sets),
        )
        for n in range(draw(st.integers(1, 6)))
    }
    holders = st.sampled_from([*members, "gone", "nobody"])
    old: dict[str, set[Partition]] = {}
    for id_ in TOPIC_IDS:
        for number in range(8):
            old.setdefault(draw(holders), set()).add(Partition(id_, number))
    old.pop("nobody", None)
    return Case(members, counts, {id_: frozenset(mine) for id_, mine in old.items()})


def check_contract(case: Case, target: Target) -> None:
    """Valid, complete and disjoint (spec section 9)."""
    assert target.keys() == case.members.keys()
    given = [partition for mine in target.values() for partition in mine]
    assert len(given) == len(set(given)), "a partition was given twice"
    assert set(given) == case.subscribed
    for member_id, mine in target.items():
        assert {p.topic_id for p in mine} <= case.members[member_id].topic_ids
