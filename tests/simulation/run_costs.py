"""Counts the rebalances of a run, and the partitions that change owners.

An owner is an honest client with a valid claim. A static client remains the same owner after a
restart.
"""

from collections.abc import Mapping

from coordinator.engine import Step
from coordinator.interface.records import TargetAssignmentMetadata
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import ClassicCoreMoved, ClassicPhase
from tests.simulation.client import Client
from tests.simulation.world import World


class RunCosts:
    """Counts into the world's `counts`: "rebalances" and "moves"."""

    def __init__(self, world: World) -> None:
        self._counts = world.counts
        self._generation = 0
        self._last: dict[Partition, str] = {}

    def after_step(self, step: Step) -> None:
        """Count computed targets, and generations that wait for their leader's assignment."""
        for record in step.records:
            match record:
                case TargetAssignmentMetadata(assignor=str()):
                    self._counts["rebalances"] += 1
                case ClassicCoreMoved(core) if (
                    core.phase is ClassicPhase.COMPLETING_REBALANCE
                    and core.generation != self._generation
                ):
                    self._generation = core.generation
                    self._counts["rebalances"] += 1
                case _:
                    pass

    def count_owners(self, owners: Mapping[Partition, Client]) -> None:
        """Count partitions whose owner differs from their last one."""
        for partition, client in owners.items():
            name = client.spec.instance_id or client.name
            if self._last.setdefault(partition, name) != name:
                self._last[partition] = name
                self._counts["moves"] += 1
