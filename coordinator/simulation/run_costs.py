"""What a run costs the group, counted: rebalances, and partitions that change hands.

An owner is an honest client that may own what it believes to own; a static one is the same owner
again after a restart. Must not judge: that is for the watches.
"""

from collections.abc import Mapping

from coordinator.engine import Step
from coordinator.records import TargetAssignmentMetadata
from coordinator.simulation.client import Client
from coordinator.simulation.world import World
from coordinator.topics import Partition
from coordinator.volatile import ClassicCoreMoved, ClassicPhase


class RunCosts:
    """Counts into the world's `counts`: "rebalances" and "moves"."""

    def __init__(self, world: World) -> None:
        self._counts = world.counts
        self._generation = 0
        self._last: dict[Partition, str] = {}

    def after_step(self, step: Step) -> None:
        """A rebalance is a target that was computed, or a generation for which one is awaited."""
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

    def owned(self, owners: Mapping[Partition, Client]) -> None:
        """Who owns what now; what nobody owns for a while has not moved yet."""
        for partition, client in owners.items():
            name = client.spec.instance_id or client.name
            if self._last.setdefault(partition, name) != name:
                self._last[partition] = name
                self._counts["moves"] += 1
