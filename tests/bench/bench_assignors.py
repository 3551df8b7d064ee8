"""What an assignment costs: in full, when one member joins, and when one leaves.

    .venv/bin/python tests/bench/bench_assignors.py

For groups of 100, 1,000 and 10,000 members with 10 partitions each, of 5 topics, it prints medians
of processor time: of the assignor alone, and of the engine's steps from the heartbeat that
joins or leaves to the new target (decided and applied; nothing is written to a disk). The share of
the full cost says whether the cost follows the change or the group.
"""

import statistics
import sys

from coordinator.assignors import ASSIGNORS
from coordinator.consumer.target import group_spec
from coordinator.group.consumer_group import ConsumerRecord
from coordinator.interface.config import GroupConfig
from coordinator.interface.records import (
    CurrentAssignment,
    MemberMetadata,
    RemovalCause,
    TargetAssignmentMember,
)
from tests.bench.engine_stage import Stage, member_metadata, members_of, seconds

SIZES = (100, 1_000, 10_000)
FULL_RUNS = 5
CHANGES = 15
MILLISECONDS = 1_000

Cost = tuple[float, float]
"""Seconds of the assignor alone, and of the engine's steps."""


def assignor_after(stage: Stage, assignor: str, *changes: ConsumerRecord) -> float:
    """The cost of the assignor after such a change. The group is left unchanged."""
    twin = stage.group.fork()
    for record in changes:
        twin.apply(record)
    return seconds(lambda: ASSIGNORS[assignor](group_spec(twin, stage.topics, GroupConfig())))


def in_full(size: int, assignor: str) -> tuple[Stage, Cost]:
    """A group that has its first target."""
    stage = Stage(size, assignor=assignor)
    stage.load_without_target(size)
    alone = assignor_after(stage, assignor)
    return stage, (alone, seconds(lambda: stage.native(members_of(1)[0], 1)))


def one_joins(stage: Stage, assignor: str, member_id: str) -> Cost:
    """One heartbeat."""
    alone = assignor_after(stage, assignor, member_metadata(member_id))
    return alone, seconds(lambda: stage.native(member_id, 0))


def one_leaves(stage: Stage, assignor: str, member_id: str) -> Cost:
    """Two heartbeats: the leave, and the next one of another member, which computes the target."""
    alone = assignor_after(
        stage,
        assignor,
        CurrentAssignment(member_id=member_id, value=None),
        TargetAssignmentMember(member_id=member_id, partitions=None),
        MemberMetadata(member_id=member_id, value=None, cause=RemovalCause.LEFT),
    )
    (witness,) = members_of(1)

    def leave() -> None:
        stage.native(member_id, -1)
        stage.native(witness, stage.group.assignments[witness].member_epoch)

    return alone, seconds(leave)


def measure(size: int, assignor: str) -> None:
    """Print a line for the assignor and one for the steps."""
    full: list[Cost] = []
    for _ in range(FULL_RUNS):
        stage, cost = in_full(size, assignor)
        full.append(cost)
    joins: list[Cost] = []
    leaves: list[Cost] = []
    newcomer = f"{members_of(size)[size // 2]}-new"  # for range, half of the group moves
    for _ in range(CHANGES):
        joins.append(one_joins(stage, assignor, newcomer))
        leaves.append(one_leaves(stage, assignor, newcomer))
        assert stage.group.assignment_epoch == stage.group.epoch
    for column, what in enumerate(("assignor", "steps")):
        full_ms, joins_ms, leaves_ms = (
            statistics.median(row[column] for row in costs) * MILLISECONDS
            for costs in (full, joins, leaves)
        )
        sys.stdout.write(
            f"{assignor:8} {size:6,} members, {what + ':':9} full {full_ms:8.2f} ms,"
            f" one joins {joins_ms:7.2f} ms ({joins_ms / full_ms:.2%}),"
            f" one leaves {leaves_ms:7.2f} ms ({leaves_ms / full_ms:.2%})\n"
        )


def main() -> None:
    """Run everything and print it."""
    for assignor in ASSIGNORS:
        for size in SIZES:
            measure(size, assignor)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
