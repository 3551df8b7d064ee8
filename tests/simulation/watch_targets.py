"""Checks that new targets are balanced, and spare the eager members that they can (rule 9.4).

It inspects only the engine, and computes with plain sums what the assignors keep in indexes.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coordinator.assignors import ASSIGNORS
from coordinator.consumer.target import group_spec
from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import Event, JoinGroupReceived
from coordinator.interface.records import MemberMetadata, TargetAssignmentMetadata
from coordinator.interface.topics import Partition, Topics
from tests.simulation.invariants import Invariant, require

Target = Mapping[str, frozenset[Partition]]


class Pool(NamedTuple):
    """Partitions that the assignor balances together, and who may get them."""

    partitions: frozenset[Partition]
    members: Sequence[str]

    def load(self, target: frozenset[Partition]) -> int:
        return len(target & self.partitions)


class TargetWatch:
    """Compares each computed target with the one before it."""

    def __init__(self) -> None:
        self._spared: Target = {}
        """The eager members that had exactly their target after the last step."""

    def after_step(
        self, state: GroupState, event: Event, step: Step, config: GroupConfig, topics: Topics
    ) -> None:
        group, spared = state.group, self._spared
        self.after_load(state)
        if isinstance(event, JoinGroupReceived):  # the member has given up its partitions
            spared = {
                id_: partitions for id_, partitions in spared.items() if id_ != event.member_id
            }
        assignor: str | None = None
        has_target = False
        for record in step.records:
            if isinstance(record, MemberMetadata):
                spared = {
                    id_: partitions for id_, partitions in spared.items() if id_ != record.member_id
                }
                assignor = None  # the next target is for other members
            elif isinstance(record, TargetAssignmentMetadata):
                # The end of a temporary assignment is a target, too: its owner may have exactly
                # that (rule 3.18).
                spared = {} if has_target else spared
                assignor, has_target = record.assignor, True
        reassigned = [slot.reassigned for slot in state.member_slots.values() if slot.reassigned]
        if isinstance(group, ConsumerGroup) and reassigned:
            if group.epoch == group.assignment_epoch:
                _check_temporary_assignments(group, reassigned)
        elif isinstance(group, ConsumerGroup) and assignor is not None:
            _check(group, spared, assignor, config, topics)
        if isinstance(group, ConsumerGroup) and not group.phases and _is_final(state, topics):
            _check_bounds(group, _pools(group, group.assignor, config, topics), config)

    def after_load(self, state: GroupState) -> None:
        self._spared = {}
        if isinstance(state.group, ConsumerGroup):
            group = state.group
            self._spared = {
                id_: group.target_of(id_)
                for id_ in group.phases
                if group.members[id_].is_eager and group.is_unaffected(id_)
            }


def _check(
    group: ConsumerGroup, spared: Target, assignor: str, config: GroupConfig, topics: Topics
) -> None:
    pools = _pools(group, assignor, config, topics)
    _check_bounds(group, pools, config)
    spared = {
        id_: partitions for id_, partitions in spared.items() if partitions <= readable(pools, id_)
    }
    disturbed = [id_ for id_, partitions in spared.items() if group.target_of(id_) != partitions]
    if pools and disturbed and not config.unaffected_members_rejoin:
        require(
            not all(_may_spare(pool, spared, config.eager_imbalance_percent) for pool in pools),
            Invariant.BALANCED,
            disturbed,
            "could have kept their targets, like all eager members",
        )


def readable(pools: Sequence[Pool], member_id: str) -> frozenset[Partition]:
    """The partitions that a member may get: it may have changed its subscription since its last
    target."""
    return frozenset().union(*(pool.partitions for pool in pools if member_id in pool.members))


def _check_temporary_assignments(
    group: ConsumerGroup, reassigned: Sequence[frozenset[Partition]]
) -> None:
    """Each temporary assignment has one owner at a time (rule 3.18)."""
    for partitions in reassigned:
        owners = {group.target_owners[partition] for partition in partitions}
        require(len(owners) == 1, Invariant.BALANCED, partitions, "are assigned to", owners)


def _check_bounds(group: ConsumerGroup, pools: Sequence[Pool], config: GroupConfig) -> None:
    """A native group is even."""
    is_bounded = bool(group.phases) and not config.unaffected_members_rejoin
    for pool in pools:
        fewest, highest = _bounds(pool, config.eager_imbalance_percent if is_bounded else 0)
        loads = {id_: pool.load(group.target_of(id_)) for id_ in pool.members}
        uneven = {id_: load for id_, load in loads.items() if not fewest <= load <= highest}
        require(not uneven, Invariant.BALANCED, uneven, "not in", (fewest, highest))


def _is_final(state: GroupState, topics: Topics) -> bool:
    """Whether no newer target is due, and each partition belongs to a member."""
    group = state.group
    return (
        isinstance(group, ConsumerGroup)
        and not state.member_slots
        and group.epoch == group.assignment_epoch
        and group.topics_checked == topics.version
    )


def _pools(
    group: ConsumerGroup, assignor: str | None, config: GroupConfig, topics: Topics
) -> list[Pool]:
    """Range balances each topic, uniform all topics together. It promises nothing simple for
    different subscriptions, and a plug-in nothing at all. A target without an assignor comes from
    the classic group."""
    if assignor not in ASSIGNORS:
        return []
    spec = group_spec(group, topics, config)
    topic_ids = {id_: member.topic_ids for id_, member in spec.members.items()}
    by_topic = [
        Pool(
            frozenset([Partition(topic_id, number) for number in range(count)]),
            [id_ for id_, read in topic_ids.items() if topic_id in read],
        )
        for topic_id, count in spec.partition_counts.items()
    ]
    if assignor == "range":
        return by_topic
    if not by_topic or not spec.is_homogeneous:
        return []
    return [Pool(frozenset().union(*(topic.partitions for topic in by_topic)), by_topic[0].members)]


def _bounds(pool: Pool, percent: int) -> tuple[int, int]:
    total, count = len(pool.partitions), len(pool.members)
    share, slack = total // count, total * percent // (100 * count)
    return max(share - slack, min(share, 1)), -(-total // count) + slack


def _may_spare(pool: Pool, spared: Target, percent: int) -> bool:
    """Whether the others could share what these members leave."""
    fewest, highest = _bounds(pool, percent)
    loads = [pool.load(spared[id_]) for id_ in pool.members if id_ in spared]
    others, rest = len(pool.members) - len(loads), len(pool.partitions) - sum(loads)
    return (
        all(fewest <= load <= highest for load in loads)
        and fewest * others <= rest <= highest * others
    )
