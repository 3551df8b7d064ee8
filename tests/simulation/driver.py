"""The gateway of a run: one process after the other, on the same log and in front of the same
cluster. Two of them overlap when the second takes the log over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from coordinator.engine import GroupEngine
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Partition, Topics
from gateway.hosting.states import Adoption
from tests.simulation.cluster import GROUP, Cluster
from tests.simulation.process import Process, Surroundings, Watcher
from tests.simulation.state_log import SimulatedLog
from tests.simulation.world import World

LEASE_MS_MAX = 2_500
"""How long a process continues after another one has taken its log."""


@dataclass(slots=True, kw_only=True)
class Answer:
    """A reply, with the time and topics of its decision and the stored offsets of a fetch."""

    reply: Reply
    at_ms: int
    topics: Topics
    offsets: Mapping[Partition, int] = field(default_factory=dict)


class Driver:
    """Starts, kills and pauses processes."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        config: GroupConfig,
        *,
        anchor_linger_ms: int,
        host_patterns: tuple[str, ...] = ("*",),
        adoption: Adoption = "manual",
    ) -> None:
        """The patterns and `adoption` are the settings groups_host and groups_adopt."""
        self.config = config
        self.log = SimulatedLog(world)
        self.is_up = True
        self.ended: Callable[[Process], None] = lambda _process: None
        """Called when a process has ended."""
        self._watcher: Watcher | None = None
        self._world = world
        self._cluster = cluster
        self.around = Surroundings(
            world=world,
            cluster=cluster,
            log=self.log,
            linger_ms=anchor_linger_ms,
            engine=GroupEngine(GROUP, config),
            host_patterns=host_patterns,
            adoption=adoption,
        )
        self._processes = 0
        self._ahead_ms = 0
        self.process = self._begin()

    @property
    def now_ms(self) -> int:
        """The wall clock of the newest process. It never goes back, but differs from the clocks of
        earlier processes."""
        return self.process.now_ms

    @property
    def engine(self) -> GroupEngine:
        """The engine of the newest process that has loaded the group."""
        return self.around.engine

    @property
    def topics(self) -> Topics:
        """The topics that the engine knows."""
        return self.process.topics

    def watch(self, watcher: Watcher) -> None:
        """Have the newest process checked from now on."""
        self._watcher = self.process.watcher = watcher

    def _begin(self) -> Process:
        self._processes += 1
        process = Process(self._processes, self.around, self.config, ahead_ms=self._ahead_ms)
        process.watcher = self._watcher
        return process

    # -- faults ----------------------------------------------------------------------------------

    def crash(
        self,
        down_ms: int,
        policy: MigrationPolicy | None = None,
        *,
        clock_ahead_ms: int | None = None,
    ) -> None:
        """End the process and start another one, perhaps with another policy or clock."""
        self._world.trace(self.process.name, "crashes")
        self._world.counts["crashes"] += 1
        self.is_up = False
        self._end(self.process)
        self._next_life(policy, clock_ahead_ms)
        self._world.after(down_ms, self._start)

    def reconfigure(self, down_ms: int) -> None:
        """Restart the process with the group in `groups_forward`, or without it there."""
        self.around.forward_patterns = () if self.around.forward_patterns else (GROUP,)
        self._world.counts["settings changed"] += 1
        self.crash(down_ms)

    def take_over(self) -> None:
        """Start another process, which takes the log over. The present one does not know yet."""
        self._world.trace(self.process.name, "loses its log to another gateway")
        self._world.counts["logs taken"] += 1
        before = self.process
        before.watcher = None
        self._world.after(self._world.between(0, LEASE_MS_MAX), self._end, before)
        self._start()

    def pause(self, length_ms: int) -> None:
        """Stop the process for some time."""
        self._world.trace(self.process.name, f"is paused for {length_ms} ms")
        self._world.counts["pauses"] += 1
        self.process.pause()
        self._world.after(length_ms, self._go_on, self.process)

    def _go_on(self, process: Process) -> None:
        if process.is_alive:
            self._world.trace(process.name, "continues")
            process.go_on()

    def _end(self, process: Process) -> None:
        if process.is_alive:
            process.kill()
            if not self._cluster.holds_anchors:
                self._cluster.fence_commits()
            self.ended(process)

    def _next_life(self, policy: MigrationPolicy | None, clock_ahead_ms: int | None) -> None:
        if policy is not None:
            self.config = replace(self.config, consumer_migration_policy=policy)
        if clock_ahead_ms is not None:
            self._ahead_ms = clock_ahead_ms

    def _start(self) -> None:
        """Load the log, perhaps with a part of it compacted."""
        if self._world.chance(0.5):
            self.log.compact()
        self.is_up = True
        self.process = self._begin()
        self._world.trace(
            self.process.name,
            f"starts, policy {self.config.consumer_migration_policy},"
            f" its clock {self._ahead_ms} ms ahead",
        )
        self.process.start()
