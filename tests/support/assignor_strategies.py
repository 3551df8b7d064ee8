"""Strategies that draw groups for the assignors, and the assignors' contract."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from coordinator.assignors import Assignor, GroupSpec, Subscriber, Target
from coordinator.group.target_loads import Loads
from coordinator.group.target_owners import Owners
from coordinator.interface.topics import Partition
from tests.support.group_values import topic_id

TOPIC_IDS = sorted(topic_id(name) for name in ("foo", "bar", "zar", "qux"))


class Case(NamedTuple):
    """The input of an assignor: members, partition counts and the old target."""

    members: Mapping[str, Subscriber]
    counts: Mapping[UUID, int]
    old: Target

    @property
    def spec(self) -> GroupSpec:
        """The group as an assignor sees it. The old target contains only members."""
        known = {id_: partitions for id_, partitions in self.old.items() if id_ in self.members}
        return spec_of(self.members, self.counts, known)

    def assigned_by(self, assignor: Assignor) -> Target:
        """The complete new target."""
        return new_target(assignor, self.spec)

    @property
    def kept_partitions(self) -> dict[str, frozenset[Partition]]:
        """The partitions that each member had and may keep."""
        return {
            id_: frozenset(
                p
                for p in self.old.get(id_, ())
                if p.topic_id in member.topic_ids and p.number < self.counts[p.topic_id]
            )
            for id_, member in self.members.items()
        }

    @property
    def subscribed_partitions(self) -> set[Partition]:
        """Every partition that has a subscriber."""
        topics = {id_ for member in self.members.values() for id_ in member.topic_ids}
        return {Partition(id_, number) for id_ in topics for number in range(self.counts[id_])}


@st.composite
def cases(draw: st.DrawFn, *, is_homogeneous: bool | None = None) -> Case:
    """A group, with equal subscriptions half of the time. `old` may name missing members, topics
    and partitions."""
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
    return Case(members, counts, {id_: frozenset(partitions) for id_, partitions in old.items()})


def spec_of(
    members: Mapping[str, Subscriber], counts: Mapping[UUID, int], old: Target
) -> GroupSpec:
    """A group with the indexes of its target."""
    owners, loads = Owners(), Loads()
    for member_id in sorted(members):
        partitions = old.get(member_id, frozenset())
        owners.give(partitions, member_id)
        loads.put(member_id, len(partitions))
    return GroupSpec(
        members=members,
        subscriber_counts=Counter(id_ for member in members.values() for id_ in member.topic_ids),
        partition_counts=counts,
        target=old,
        owners=owners,
        loads=loads,
    )


def new_target(assignor: Assignor, spec: GroupSpec) -> Target:
    """The old target with the assignor's changes, none of which is empty."""
    changed = assignor(spec)
    old = {member_id: spec.target.get(member_id, frozenset()) for member_id in spec.members}
    assert changed.keys() <= old.keys()
    assert all(partitions != old[member_id] for member_id, partitions in changed.items())
    return {**old, **changed}


def fewest_moves(unmoved: Target, total: int) -> int:
    """The least number of partitions that must move until all loads differ by at most one."""
    share, extra = divmod(total, len(unmoved))
    loads = sorted((len(partitions) for partitions in unmoved.values()), reverse=True)
    return sum(max(0, load - share - (n < extra)) for n, load in enumerate(loads))


def moves(unmoved: Target, target: Target) -> int:
    """The number of partitions that left their owners."""
    return sum(len(partitions - target[member_id]) for member_id, partitions in unmoved.items())


def check_contract(case: Case, target: Target) -> None:
    """The target is valid, complete and disjoint (rule 9.3)."""
    assert target.keys() == case.members.keys()
    given = [partition for partitions in target.values() for partition in partitions]
    assert len(given) == len(set(given)), "a partition was assigned twice"
    assert set(given) == case.subscribed_partitions
    for member_id, partitions in target.items():
        assert {p.topic_id for p in partitions} <= case.members[member_id].topic_ids
