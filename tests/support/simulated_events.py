"""The events of a simulated run as the gateway would write them, with the true state beside them.

The simulator knows every holder at every step. A reader of the events must reach the same result.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from itertools import count, islice

from coordinator.engine import Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import read_stored_assignment
from coordinator.group.state import GroupState
from coordinator.interface.errors import GroupError
from coordinator.interface.events import Event
from coordinator.interface.records import Member
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import MemberPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import TopicsGone
from gateway.events.record_translator import tell
from gateway.events.statements import statement
from gateway.simulation.driver import GROUP, Batch, Driver
from gateway.simulation.watch import Watch
from gateway.simulation.world import World
from tests.support.simulated_offsets import SimulatedOffsets, StoringRun

UNDISTURBED_RUNS = 4

Holdings = Mapping[tuple[str, int], str]
"""The topic and partition, and the member that the engine granted it to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMember:
    """A member as in the engine's state."""

    instance_id: str | None
    kind: str
    """The epoch of its group."""
    protocol: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedStep:
    """The events of one step, and the holders after it."""

    at_ms: int
    offsets: Sequence[GatewayEvent]
    """Reports of commits and fetches that precede the other events."""
    events: Sequence[GatewayEvent]
    is_durable: bool
    holdings: Holdings
    members: Mapping[str, SimulatedMember]
    loaded: Holdings | None = None
    """The holders right after a load. A classic group loses the part of an interrupted rebalance
    that was not durable."""


@dataclass(slots=True)
class Recorder:
    """An observer of the driver that wraps the simulator's own."""

    watch: Watch
    driver: Driver
    world: World
    offsets: SimulatedOffsets
    steps: list[SimulatedStep] = field(default_factory=list)

    _state: GroupState = field(default_factory=lambda: GroupState(GROUP))
    """The state before the step."""
    _loaded: Holdings | None = None
    _topics: Topics = field(default_factory=Topics)

    def before_step(self) -> None:
        self.watch.before_step()

    def decided(self) -> None:
        self.watch.decided()

    def after_step(self, event: Event, step: Step) -> None:
        topics = self.driver.topics
        events: list[GatewayEvent] = []
        gone = [name for name, t in self._topics.by_name.items() if t.topic_id not in topics.by_id]
        self._topics = topics
        if gone:
            events.append(TopicsGone(topics=tuple(sorted(gone))))
        if (stated := statement(event, step, topics)) is not None:
            events.append(stated)
        events += tell(self._state, step.records, topics)
        for record in step.records:
            self._state.apply(record)
        self.offsets.note(event, step)
        self.steps.append(
            SimulatedStep(
                at_ms=self.world.now_ms,
                offsets=self.offsets.take(events),
                events=events,
                is_durable=bool(step.durable),
                holdings=holdings(self.driver.engine.state, topics),
                members=members(self.driver.engine.state, topics),
                loaded=self._loaded,
            )
        )
        self._loaded = None
        self.watch.after_step(event, step)

    def after_load(self, batches: Sequence[Batch]) -> None:
        self._state = deepcopy(self.driver.engine.state)
        self._loaded = holdings(self._state, self._topics)
        self.watch.after_load(batches)


def holdings(state: GroupState, topics: Topics) -> Holdings:
    """The holders in the engine's state."""
    found: dict[tuple[str, int], str] = {}
    for member_id, partitions in _held(state, topics):
        for topic, numbers in topics.names(partitions).items():
            for number in numbers:
                found[topic, number] = member_id
    return found


def _held(state: GroupState, topics: Topics) -> Iterator[tuple[str, frozenset[Partition]]]:
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


def simulated(seed: int) -> Sequence[SimulatedStep]:
    """A whole run without lost batches: a crash loses no event."""
    return simulated_with_excuses(seed)[0]


def simulated_with_excuses(seed: int) -> tuple[Sequence[SimulatedStep], frozenset[tuple[str, int]]]:
    """The run, and the partitions whose offsets no engine could protect, because members lied."""
    run = StoringRun(seed)
    run.driver.linger_ms = 0
    run.driver.log_doubt_rate = 0.0
    # The events do not contain commits through another coordinator.
    run.cluster.commit_elsewhere = lambda: None  # type: ignore[method-assign]
    offsets = SimulatedOffsets(run)
    recorder = Recorder(run.watch, run.driver, run.world, offsets)
    run.driver.observer = recorder
    crashed = run.driver.crashed

    def crash() -> None:
        crashed()
        offsets.forget()

    run.driver.crashed = crash
    run.play()
    names = run.cluster.names
    excused = frozenset((names[p.topic_id], p.number) for p in run.exempt_claims.partitions)
    return recorder.steps, excused


@cache
def undisturbed() -> Mapping[int, Sequence[SimulatedStep]]:
    """The first seeds whose runs have no crash, so that no event is undone."""
    played = ((seed, simulated(seed)) for seed in count())
    whole = (run for run in played if all(step.loaded is None for step in run[1]))
    return dict(islice(whole, UNDISTURBED_RUNS))
