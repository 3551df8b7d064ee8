"""Checks every invariant at every step of a run (rule 12.1); the only observer of the driver."""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.engine import Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState, RecordBesideTheGroup
from coordinator.handlers.group_configs import in_force
from coordinator.handlers.offsets import NO_MEMBER
from coordinator.interface.config import INT32_MAX
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    Event,
    GroupLost,
    HeartbeatReceived,
    OffsetCommitReceived,
    SyncGroupReceived,
)
from coordinator.interface.records import CurrentAssignment
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import ClassicCoreMoved, ClassicPhase, Token
from gateway.simulation.driver import GROUP, Batch, Driver
from gateway.simulation.invariants import (
    Invariant,
    check_deadlines,
    check_group,
    check_target,
    require,
)
from gateway.simulation.network import Network
from gateway.simulation.probes import (
    check_next_heartbeat,
    check_rejoin_changes_nothing,
    check_there_and_back,
)
from gateway.simulation.replay import (
    check_same,
    compacted,
    durable_state,
    parked_tokens,
    snapshot,
)
from gateway.simulation.watch_intervals import IntervalWatch
from gateway.simulation.watch_members import EpochWatch, SilenceWatch
from gateway.simulation.watch_owners import OwnerWatch
from gateway.simulation.world import World
from kafka_codecs.consumer_protocol import NO_GENERATION, decode_assignment
from kafka_codecs.error_codes import ErrorCode

SAMPLE = 32
"""The number of steps between expensive checks."""


class Watch:
    """An observer that raises BrokenInvariantError."""

    def __init__(self, world: World, driver: Driver, network: Network, owners: OwnerWatch) -> None:
        self.epochs, self.silence, self.owners = EpochWatch(), SilenceWatch(), owners
        self.intervals = IntervalWatch()
        self._world, self._driver, self._network = world, driver, network
        self._replayed = GroupState(GROUP)
        self._batches: list[Batch] = []
        self._steps = 0
        self._snapshot = ""
        self._probed: object = None
        self._held: dict[Partition, str] | None = None
        self._committing: dict[Token, dict[Partition, str]] = {}

    def before_step(self) -> None:
        self._steps += 1
        if self._steps % SAMPLE == 0:
            self._snapshot = snapshot(self._driver.engine.state)

    def decided(self) -> None:
        """A decision must not change the state."""
        if self._steps % SAMPLE == 0:
            require(
                snapshot(self._driver.engine.state) == self._snapshot,
                Invariant.PURE,
                self._snapshot,
            )

    def after_step(self, event: Event, step: Step) -> None:
        state, now_ms = self._driver.engine.state, self._world.now_ms
        config = in_force(self._driver.config, state.config_overrides)
        time_ends_commits = config.lost_commit_hold_ms is not None
        if all(isinstance(record, RecordBesideTheGroup) for record in step.records):
            check_deadlines(state, time_ends_commits=time_ends_commits)
        else:
            check_group(state, time_ends_commits=time_ends_commits)
            if isinstance(state.group, ConsumerGroup):
                check_target(state.group, self._driver.topics)
        self._check_taken(event)
        self._check_answers(step)
        self.intervals.after_step(state, event, step, config, self._driver.now_ms)
        self.epochs.after_step(state, step, config)
        self._check_replies(event, step)
        self._check_verdict(event, step)
        self.silence.after_step(state, event, step, config, now_ms)
        self._check_replay(step)
        self._check_commits()
        self._check_grants(step)
        self.owners.after_step(step)
        self._probe(event, step)

    def after_load(self, batches: Sequence[Batch]) -> None:
        """Start from the loaded state, as the engine does."""
        state = self._driver.engine.state
        config = in_force(self._driver.config, state.config_overrides)
        check_group(state, time_ends_commits=config.lost_commit_hold_ms is not None)
        self._batches = list(batches)
        self._replayed = GroupState(GROUP)
        for batch in batches:
            for record in batch:
                self._replayed.apply(record)
        self._held = holders(state)
        self.epochs.after_load(state)
        self.intervals.after_load(state)
        self.silence.after_load(state, config, self._world.now_ms)
        self.owners.after_load()

    def _check_taken(self, event: Event) -> None:
        """After `GroupLost` no member remains: the other coordinator grants all partitions."""
        group = self._driver.engine.state.group
        if isinstance(event, GroupLost) and group is not None:
            require(not group.members, Invariant.TAKEN, "members:", sorted(group.members))

    # -- answers ---------------------------------------------------------------------------------

    def _check_answers(self, step: Step) -> None:
        """Every request is answered once or parked."""
        answered = {token for token, _ in step.replies}
        require(
            self._driver.unanswered() == parked_tokens(self._driver.engine.state),
            Invariant.ANSWERS,
            "answered:",
            answered,
            "waiting:",
            parked_tokens(self._driver.engine.state),
        )
        require(len(answered) == len(step.replies), Invariant.ANSWERS, "two answers to one request")

    def _check_replies(self, event: Event, step: Step) -> None:
        """Invariant 3, also for native members."""
        _check_epochs_of_answers(event, step)
        group = self._driver.engine.state.group
        if isinstance(group, ClassicGroup):
            _check_classic_replies(group, event, step)
        if not isinstance(group, ConsumerGroup):
            return
        for token, reply in step.replies:
            if reply.error:
                continue
            match reply:
                case JoinGroupReply(member_id=member_id, generation=generation):
                    told, held = generation, group.assignments[member_id].member_epoch
                    require(told == held, Invariant.CLASSIC_REPLIES, told, "not", held)
                case ConsumerHeartbeatReply(member_id=str(member_id), member_epoch=told):
                    current = group.assignments.get(member_id)
                    is_true = current is None or (
                        told == current.member_epoch
                        and reply.assignment in (None, current.assigned.keys())
                    )
                    require(is_true, Invariant.CLASSIC_REPLIES, reply, "not", current)
                    # A member that left with -2 expects no assignment.
                    if reply.assignment is None and current is not None and (told or 0) > 0:
                        self.owners.told_nothing_new(member_id, current.assigned.keys())
                case SyncGroupReply(assignment=assignment) if (
                    isinstance(event, SyncGroupReceived) and event.token == token
                ):
                    self._check_synced(group, event.member_id, assignment)
                case _:
                    pass

    def _check_synced(self, group: ConsumerGroup, member_id: str, assignment: bytes) -> None:
        _version, decoded = decode_assignment(assignment)
        topics = self._driver.topics
        told = topics.partitions((e.topic, e.partitions) for e in decoded.assigned_partitions)
        assigned = group.assignments[member_id].assigned
        known = {partition for partition in assigned if partition.topic_id in topics.by_id}
        require(told == known, Invariant.CLASSIC_REPLIES, member_id, "gets", told, "not", known)

    # -- the log ---------------------------------------------------------------------------------

    def _check_replay(self, step: Step) -> None:
        """Invariant 8: the records so far restore the group; at some steps, also compacted."""
        if step.durable:
            self._batches.append(step.durable)
            for record in step.durable:
                self._replayed.apply(record)
        if not step.durable and self._steps % SAMPLE:
            return
        expected = durable_state(self._driver.engine.state)
        check_same(self._replayed, expected)
        if self._steps % SAMPLE == 0:
            state = GroupState(GROUP)
            for record in compacted(record for batch in self._batches for record in batch):
                state.apply(record)
            check_same(state, expected)

    # -- offsets ---------------------------------------------------------------------------------

    def _check_verdict(self, event: Event, step: Step) -> None:
        """Invariant 10: an accepted commit comes from an owner, with a valid epoch."""
        if not isinstance(event, OffsetCommitReceived) or dict(step.replies)[event.token].error:
            return
        self.owners.vetted(self._network.committers[event.token], event)
        group = self._driver.engine.state.group
        if group is not None and event.member_id in group.members:
            require(_may_commit(group, event), Invariant.STALE_COMMIT, event)

    def _check_commits(self) -> None:
        """Invariant 10: the group knows every commit on its way, even after a conversion."""
        known = self._driver.engine.state.commits
        forgotten = [
            token
            for token, (commit, _sent) in self._network.commits_sent.items()
            if token not in known and not (commit.is_transactional and not commit.member_id)
        ]
        require(not forgotten, Invariant.OFFSETS, "forgotten commits in flight:", forgotten)

    def _check_grants(self, step: Step) -> None:
        """Invariant 10: no member gets a partition while its owner's commit is in flight."""
        state, before = self._driver.engine.state, self._held
        self._held = now = holders(state)
        for token in [token for token in self._committing if token not in state.commits]:
            del self._committing[token]
        for token in state.commits.keys() - self._committing.keys():
            commit = state.commits[token]
            if commit.member_id == NO_MEMBER:
                continue
            mine = [p for p in commit.partitions if now is None or now.get(p) == commit.member_id]
            self._committing[token] = dict.fromkeys(mine, commit.member_id)
        on_the_way = {p: id_ for owned in self._committing.values() for p, id_ in owned.items()}
        if not on_the_way:
            return
        require(
            not _starts_generation(step), Invariant.OFFSETS, "a new generation during", on_the_way
        )
        if before is None or now is None:
            return
        for partition, committer in on_the_way.items():
            holder = now.get(partition, committer)
            require(
                partition in before or holder == committer,
                Invariant.OFFSETS,
                f"{holder} got {partition} during a commit of {committer}",
            )

    # -- probes ----------------------------------------------------------------------------------

    def _probe(self, event: Event, step: Step) -> None:
        driver, state = self._driver, self._driver.engine.state
        how: tuple[Any, ...] = (driver.config, driver.topics, driver.now_ms)
        match state.group:
            case ConsumerGroup() if isinstance(event, HeartbeatReceived):
                replies: Mapping[int, Reply] = dict(step.replies)
                if replies[event.token].error == ErrorCode.NONE:
                    check_rejoin_changes_nothing(state, event.member_id, *how)
            case ConsumerGroup() as group:
                moved = {r.member_id for r in step.records if isinstance(r, CurrentAssignment)}
                for member_id in sorted(moved & group.phases.keys()):
                    check_next_heartbeat(state, member_id, *how)
            case ClassicGroup() as group if self._probed != group.core:
                if check_there_and_back(state, *how):
                    self._probed = group.core
                    self._world.counts["there and back"] += 1
            case _:
                pass


def holders(state: GroupState) -> dict[Partition, str] | None:
    """The holder of each partition; None unless the group is a consumer group."""
    return dict(state.group.holders) if isinstance(state.group, ConsumerGroup) else None


def _may_commit(group: ClassicGroup | ConsumerGroup, commit: OffsetCommitReceived) -> bool:
    """Whether the commit has the member's epoch, or an older one for partitions that the member has
    held since then (rules 2.9, 3.15). After a downgrade the member may not know the generation yet
    (deviation D8)."""
    if isinstance(group, ConsumerGroup):
        current = group.assignments[commit.member_id]
    elif commit.epoch == group.core.generation:
        return True
    else:
        laggards = group.core.held_at_downgrade or {}
        if commit.member_id not in laggards:
            return False
        current = laggards[commit.member_id]
    return commit.epoch == current.member_epoch or (
        commit.epoch < current.member_epoch
        and all(current.held.get(p, INT32_MAX) <= commit.epoch for p in commit.partitions)
    )


def _check_epochs_of_answers(event: Event, step: Step) -> None:
    """A member goes on with the epoch that it is told, so this must not mean to join or leave. Only
    the answer to a native leave repeats its negative epoch."""
    if isinstance(event, ConsumerHeartbeatReceived) and event.member_epoch < JOIN_EPOCH:
        return
    for _token, reply in step.replies:
        match reply:
            case ConsumerHeartbeatReply(error=ErrorCode.NONE, member_epoch=told):
                require(told > JOIN_EPOCH, Invariant.CLASSIC_REPLIES, reply)
            case JoinGroupReply(error=ErrorCode.NONE, generation=told):
                require(told > NO_GENERATION, Invariant.CLASSIC_REPLIES, reply)
            case _:
                pass


def _check_classic_replies(group: ClassicGroup, event: Event, step: Step) -> None:
    """Invariant 3 in a classic group: SyncGroup returns the stored assignment."""
    for token, reply in step.replies:
        if isinstance(event, SyncGroupReceived) and event.token == token and not reply.error:
            assert isinstance(reply, SyncGroupReply)
            given, stored = reply.assignment, group.members[event.member_id].assignment
            require(given == stored, Invariant.CLASSIC_REPLIES, given, "not", stored)


def _starts_generation(step: Step) -> bool:
    return any(
        isinstance(record, ClassicCoreMoved)
        and record.core.phase is ClassicPhase.COMPLETING_REBALANCE
        for record in step.records
    )
