"""The events of a simulated run as the gateway would write them, together with the true state.

The simulator knows every holder at every step. A reader of the events must reach the same result.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import read_stored_assignment
from coordinator.group.state import GroupState
from coordinator.interface.errors import GroupError
from coordinator.interface.records import Member
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import MemberPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupLoaded, TopicsDeleted
from gateway.events.group_snapshot import snapshot_group
from gateway.events.group_tracker import GroupTracker
from gateway.events.topic_ids import topic_ids
from gateway.hosting.batch import Decision
from tests.simulation.process import Process
from tests.simulation.watch import Watch
from tests.support.simulated_offsets import SimulatedOffsets, StoringRun

Holdings = Mapping[tuple[str, int], str]
"""The topic and partition, and the member that the engine granted it to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMember:
    """A member as in the engine's state."""

    client_id: str
    instance_id: str | None
    kind: str
    """The kind of its group."""
    protocol: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedStep:
    """The events of one step, and the holders after it."""

    at_ms: int
    offsets: Sequence[tuple[int, GatewayEvent]]
    """Reports of commits and fetches that precede the other events, with the times of telling."""
    events: Sequence[GatewayEvent]
    is_durable: bool
    holdings: Holdings
    members: Mapping[str, SimulatedMember]
    loaded: Holdings | None = None
    """In the first step of another process, the holders right after the load. A classic group loses
    the part of an interrupted rebalance that was not durable."""


class Recorder(Watch):
    """Records every step of a run, in addition to the watch's checks."""

    def __init__(self, run: StoringRun, offsets: SimulatedOffsets) -> None:
        super().__init__(run.world, run.driver, run.network, run.owners)
        self.silence.lag_ms = run.watch.silence.lag_ms
        self.steps: list[SimulatedStep] = []
        self._offsets = offsets
        self._loaded: Holdings | None = None
        self._topics = Topics()
        self._newest: Process | None = None
        self._tracker = GroupTracker()
        self._snapshot: GroupLoaded | None = None
        """What a process has loaded, until it writes its first event."""

    def record_applied(self, process: Process, decision: Decision, topics: Topics) -> None:
        events: list[GatewayEvent] = []
        before = self._topics.by_name
        gone = sorted(name for name, t in before.items() if t.topic_id not in topics.by_id)
        ids = topic_ids(self._topics, gone)
        self._topics = topics
        if self._snapshot is not None:
            events.append(self._snapshot)
            self._tracker.observe([self._snapshot], self._world.now_ms)
        if gone:
            deleted = TopicsDeleted(topics=tuple(gone), topic_ids=ids)
            events += [deleted, *self._tracker.observe([deleted], self._world.now_ms)]
        events += decision.reported.events
        events += self._tracker.observe(decision.reported.events, self._world.now_ms)
        super().record_applied(process, decision, topics)
        if self._loaded is not None and not events:
            return  # the new process has not told any event yet
        self._snapshot = None
        state = process.group.engine.core.state
        shown = process.group.engine.core.summarize().state
        events += self._tracker.settle(shown, self._world.now_ms)
        self.steps.append(
            SimulatedStep(
                at_ms=self._world.now_ms,
                offsets=self._offsets.take(events),
                events=events,
                is_durable=bool(decision.step.durable),
                holdings=holdings(state, topics),
                members=members(state, topics),
                loaded=self._loaded,
            )
        )
        self._loaded = None

    def record_loaded(self, process: Process) -> None:
        if process is not self._newest:
            self._offsets.forget()
            if self._newest is not None:
                self._loaded = holdings(process.group.engine.core.state, self._topics)
            self._newest = process
        self._snapshot = snapshot_group(process.group.engine.core.state, self._topics)
        super().record_loaded(process)


def holdings(state: GroupState, topics: Topics) -> Holdings:
    """The holders in the engine's state."""
    holders: dict[tuple[str, int], str] = {}
    for member_id, partitions in _held_partitions(state, topics):
        for topic, numbers in topics.names(partitions).items():
            for number in numbers:
                holders[topic, number] = member_id
    return holders


def _held_partitions(
    state: GroupState, topics: Topics
) -> Iterator[tuple[str, frozenset[Partition]]]:
    match state.group:
        case ConsumerGroup() as group:
            for member_id, current in group.assignments.items():
                held = current.assigned.keys() | current.pending_revocation.keys()
                yield member_id, frozenset(held)
        case ClassicGroup() as group:
            for member_id, member in group.members.items():
                try:
                    protocol = group.core.protocol
                    yield (
                        member_id,
                        read_stored_assignment(member.assignment, topics, protocol=protocol),
                    )
                except GroupError:
                    pass
        case None:
            pass


def members(state: GroupState, topics: Topics) -> Mapping[str, SimulatedMember]:
    """The members in the engine's state, by member id."""
    match state.group:
        case ConsumerGroup() as group:
            return {
                member.member_id: SimulatedMember(
                    client_id=member.client_id,
                    instance_id=member.instance_id,
                    kind="consumer",
                    protocol="classic" if member.is_classic else "consumer",
                    state=_state_of(member, group, topics),
                )
                for member in group.members.values()
            }
        case ClassicGroup() as group:
            return {
                member.member_id: SimulatedMember(
                    client_id=member.client_id,
                    instance_id=member.instance_id,
                    kind="classic",
                    protocol="classic",
                    state=group.phase,
                )
                for member in group.members.values()
            }
        case None:
            return {}


def _state_of(member: Member, group: ConsumerGroup, topics: Topics) -> str:
    """The remaining work of a consumer group's member, without deleted topics."""
    if member.is_classic:
        return group.phases.get(member.member_id, MemberPhase.STABLE)
    current = group.assignments.get(member.member_id)
    is_to_revoke = current is not None and topics.names(current.pending_revocation.keys())
    return "UnrevokedPartitions" if is_to_revoke else "Stable"


def simulate_events(seed: int) -> Sequence[SimulatedStep]:
    """A whole run without lost batches: a crash loses no event."""
    return simulated_with_excuses(seed)[0]


def simulated_with_excuses(seed: int) -> tuple[Sequence[SimulatedStep], frozenset[tuple[str, int]]]:
    """The run, and the partitions whose offsets no engine could protect, because members lied, or
    whose reset no event reports, because its client had gone."""
    run = StoringRun(seed)
    offsets = SimulatedOffsets(run)
    recorder = Recorder(run, offsets)
    run.play()
    names = run.cluster.names
    excused = {*run.exempt_claims.partitions, *(p for p, _offset in run.untold_resets)}
    return recorder.steps, frozenset((names[p.topic_id], p.number) for p in excused)


def is_determined(steps: Sequence[SimulatedStep]) -> bool:
    """Whether the events determine the members. If a process ends during a rebalance of a classic
    group, its volatile lines are the only ones about the members that had joined, and the tables
    keep those members if the next process begins with a durable event: such a line does not name
    its process."""
    return not any(
        later.loaded is not None
        and any(
            member.kind == "classic" and member.state != "Stable"
            for member in former.members.values()
        )
        for former, later in pairwise(steps)
    )
