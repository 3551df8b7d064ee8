"""Checks every invariant at every step of a run (rule 12.1)."""

from collections.abc import Hashable, Mapping, Sequence, Set
from typing import Any

from coordinator.engine import GroupEngine, Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.handlers.group_configs import in_force
from coordinator.handlers.offsets import NO_MEMBER
from coordinator.interface.config import INT32_MAX, GroupConfig
from coordinator.interface.events import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeatReceived,
    Event,
    GroupLost,
    Happening,
    HeartbeatReceived,
    JoinGroupReceived,
    OffsetCommitReceived,
    OffsetFetchReceived,
    SyncGroupReceived,
)
from coordinator.interface.records import (
    AdoptionRecord,
    Assignment,
    CurrentAssignment,
    DurableRecord,
    GroupConfigs,
    ReleaseRecord,
    RemovalCause,
    ServedBySetting,
    TargetAssignmentMetadata,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import (
    ClassicCoreMoved,
    ClassicPhase,
    CommitEnded,
    CommitStarted,
    ConversionsMoved,
    DeadlineCleared,
    DeadlineSet,
    DynamicMemberLeft,
    JoinParked,
    JoinReleased,
    MemberDeparted,
    MemberPhaseMoved,
    MemberReturned,
    MemberSlot,
    MemberSlotMoved,
    PendingIdAdded,
    PendingIdDropped,
    ProtocolChanged,
    RegexResolutionMoved,
    RepetitionMoved,
    SyncParked,
    SyncReceived,
    SyncReleased,
    SyncsExpected,
    Token,
)
from gateway.hosting.anchor import GENERATIONS_OF_A_CONSUMER
from gateway.hosting.batch import Decision
from gateway.hosting.lookup_outcome import LiveMembers
from kafka_codecs.consumer_protocol import NO_GENERATION, decode_assignment
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.cluster import GROUP, TRIP_MS_MAX
from tests.simulation.driver import Driver
from tests.simulation.invariants import (
    Invariant,
    check_changed_deadlines,
    check_changed_group,
    check_deadlines,
    check_group,
    check_target,
    require,
    timers_of,
)
from tests.simulation.network import Network
from tests.simulation.probes import (
    check_next_heartbeat,
    check_rejoin_changes_nothing,
    check_rejoin_changes_something,
    check_there_and_back,
)
from tests.simulation.process import DecidedStep, Process, WatchedEngine
from tests.simulation.replay import (
    check_restored,
    copy_state,
    parked_tokens,
    supersede,
)
from tests.simulation.watch_computing import ComputingWatch
from tests.simulation.watch_intervals import IntervalWatch
from tests.simulation.watch_members import EpochWatch, SilenceWatch, removed_members
from tests.simulation.watch_owners import OwnerWatch
from tests.simulation.watch_roll import RollWatch
from tests.simulation.watch_targets import TargetWatch
from tests.simulation.world import World

INTRUDER_NOTICED_MS = 8_000
"""An interval of the anchor's heartbeat, a look, and a write, each of them slow."""
TYPES_BESIDE_THE_GROUP = frozenset(
    {
        DeadlineSet,
        DeadlineCleared,
        CommitStarted,
        CommitEnded,
        RegexResolutionMoved,
        ConversionsMoved,
        MemberSlotMoved,
        MemberReturned,
        ProtocolChanged,
        DynamicMemberLeft,
        MemberDeparted,
        GroupConfigs,
        AdoptionRecord,
        ReleaseRecord,
        ServedBySetting,
    }
)
"""Records of these types do not change the group itself, whatever its kind."""
TYPES_BESIDE_THE_TARGET = TYPES_BESIDE_THE_GROUP | {
    *(JoinParked, JoinReleased, PendingIdAdded, PendingIdDropped),
    *(SyncParked, SyncReceived, SyncReleased, SyncsExpected),
    *(MemberPhaseMoved, RepetitionMoved),
}
"""Records of these types change no epoch, no target, and not who is a member."""
RECORDS_OF_MOVES = {AdoptionRecord, ReleaseRecord}
NO_OVERRIDES: Mapping[str, int] = {}
SAMPLE = 32
"""The number of steps between expensive checks."""
DECISIONS_PER_COPY = 16
"""The number of decisions between two whose state is compared before and after."""


class Watch:
    """Watches the newest process. Raises BrokenInvariantError."""

    def __init__(self, world: World, driver: Driver, network: Network, owners: OwnerWatch) -> None:
        self.epochs, self.silence, self.owners = EpochWatch(), SilenceWatch(), owners
        self.intervals, self.targets, self.roll = IntervalWatch(), TargetWatch(), RollWatch()
        self.computing = ComputingWatch()
        self._world, self._driver, self._network = world, driver, network
        self._state = driver.engine.state
        self._replayed = GroupState(GROUP)
        self._compacted: dict[Hashable, DurableRecord] = {}
        """What a compaction of the log would leave."""
        self._read = 0
        """How many batches of the log have taken effect."""
        self._silent_ms = 0
        """When the group last needed no anchor."""
        self._steps = 0
        self._decisions = 0
        self._copy: object = None
        self._probed: object = None
        self._quiet: dict[str, Topics] = {}
        """The settled members whose rejoin would change nothing, with these topics."""
        self._timers = timers_of(None)
        self._configs = (driver.config, NO_OVERRIDES, driver.config)
        """The broker's config, the group's overrides, and the config in force."""
        self._unanswered: set[Token] = set()
        self._parked: set[Token] = set()
        self._held: dict[Partition, str] | None = None
        self._committing: dict[Token, dict[Partition, str]] = {}
        driver.watch(self)

    # -- what the process shows ------------------------------------------------------------------

    def before_decision(self, engine: GroupEngine, event: Event) -> None:
        self._decisions += 1
        if self._decisions % DECISIONS_PER_COPY == 0:
            self._copy = copy_state(engine.state)
        token = getattr(event, "token", None)
        if token in self._network.lines and not isinstance(event, Happening):
            line, number = self._network.lines[token]
            line.on_decision(number, event)

    def after_decision(self, engine: GroupEngine) -> None:
        """A decision must not change the state."""
        if self._decisions % DECISIONS_PER_COPY == 0:
            require(copy_state(engine.state) == self._copy, Invariant.PURE, engine.state.group)

    def record_applied(self, process: Process, decision: Decision, topics: Topics) -> None:
        event, step = decision.event, decision.step
        state = self._state = self._driver.engine.state
        decided_ms = decision.reported.at_ms
        self._steps += 1
        self._world.counts["events"] += 1
        self._world.trace("engine", *step.records)
        self._count_slots(step)
        config = self._config_in_force(process)
        kinds = set(map(type, step.records))
        has_moved = not kinds <= TYPES_BESIDE_THE_GROUP
        if has_moved:
            self._parked = parked_tokens(state)
        self._check_batched(step)
        self._check_state(step, topics, has_moved=has_moved)
        self._check_taken(event)
        self._check_replaced(event, step)
        self._check_intruder(process)
        self._check_answers(event, step)
        if has_moved or isinstance(event, ConsumerHeartbeatReceived | JoinGroupReceived):
            self.intervals.after_step(state, event, step, config, decided_ms)
        self.computing.after_step(state, event, step)
        self.roll.after_event(state, event, step, config)
        if has_moved:
            self.intervals.record(state)
            self.computing.record(state)
            self.roll.after_step(state, step, config, decided_ms)
        if not kinds <= TYPES_BESIDE_THE_TARGET:
            self.epochs.after_step(state, step, config)
            self.targets.after_step(state, event, step, config, topics)
        self._check_replies(event, step, topics)
        self._check_verdict(event, step)
        self.silence.after_step(
            state, event, step, config, decided_ms - process.ahead_ms, has_moved=has_moved
        )
        self._check_replay(step)
        self._check_commits(process)
        self._check_grants(step, has_moved=has_moved)
        self.owners.pass_time()
        if has_moved or kinds & RECORDS_OF_MOVES:
            self.owners.after_step(step)
            self._quiet.clear()
        self._probe(event, step, process.config, topics, decided_ms, has_moved=has_moved)
        if TargetAssignmentMetadata in kinds:
            self._network.target_moved()

    def record_loaded(self, process: Process) -> None:
        """Start from the loaded state, as the engine does."""
        state = self._state = self._driver.engine.state
        config = self._config_in_force(process)
        check_group(state, time_ends_commits=config.lost_commit_hold_ms is not None)
        self._timers = timers_of(state.group)
        self._quiet.clear()
        log = self._driver.log
        unseen = batches = log.since(self._read)
        if batches is None:
            self._replayed, batches = GroupState(GROUP), log.batches
            self._compacted.clear()
        for batch in batches:
            self._replay(batch)
        self._read = log.batches_stored
        self._unanswered.clear()
        self._parked = parked_tokens(state)
        self._held = holders(state)
        self.epochs.after_load(state)
        self.intervals.after_load(state)
        self.computing.after_load(state)
        self.targets.after_load(state)
        self.roll.look_up_all(state)
        self.silence.after_load(state, config, process.read_ms)
        self.owners.after_load(unseen or ())

    def _count_slots(self, step: Step) -> None:
        kind = "classic" if isinstance(self._state.group, ClassicGroup) else "consumer"
        for record in step.records:
            match record:
                case MemberReturned():
                    self._world.counts[f"{kind} slots taken"] += 1
                case MemberSlotMoved(slot=MemberSlot(reassigned=reassigned)) if reassigned:
                    self._world.counts[f"{kind} temporary assignments"] += 1

    def _config_in_force(self, process: Process) -> GroupConfig:
        broker, overrides = process.config, self._state.config_overrides
        if self._configs[0] is not broker or self._configs[1] is not overrides:
            self._configs = broker, overrides, in_force(broker, overrides)
            self._quiet.clear()
        return self._configs[2]

    def _check_state(self, step: Step, topics: Topics, *, has_moved: bool) -> None:
        """Check the state, as far as the step has changed it."""
        state = self._state
        time_ends_commits = self._configs[2].lost_commit_hold_ms is not None
        if self._steps % SAMPLE == 0:
            check_group(state, time_ends_commits=time_ends_commits)
            self._timers = timers_of(state.group)
        elif has_moved:
            check_changed_group(state, step.records)
            self._timers = check_deadlines(state, time_ends_commits=time_ends_commits)
        else:
            check_changed_deadlines(
                state, step.records, self._timers, time_ends_commits=time_ends_commits
            )
        if has_moved and isinstance(state.group, ConsumerGroup):
            check_target(state.group, topics)

    def _check_batched(self, step: Step) -> None:
        """The step was decided on the group with the records of all steps before it."""
        engine = self._driver.engine
        if isinstance(step, DecidedStep) and isinstance(engine, WatchedEngine):
            before = engine.records_applied - len(step.records)
            is_next = step.follows == before
            require(is_next, Invariant.BATCHED, step, "was decided before record", before)

    def _check_taken(self, event: Event) -> None:
        """After `GroupLost` no member remains: the other coordinator grants all partitions."""
        group = self._state.group
        if isinstance(event, GroupLost) and group is not None:
            require(not group.members, Invariant.TAKEN, "members:", sorted(group.members))

    def _check_intruder(self, process: Process) -> None:
        """A consumer in the group in the cluster fences our members. Faults that keep the gateway
        from noticing in time, or from writing, excuse it. Nobody looks while all members are silent
        after a restart."""
        cluster, log, group = (
            self._network.cluster,
            self._driver.log,
            self._state.group,
        )
        anchor = process.group.anchor
        if not (anchor.is_here or anchor.has_given_way):
            self._silent_ms = self._world.now_ms
        if group is None or cluster.failure_rate or log.failure_rate or not cluster.has_intruder:
            return
        since_ms = max(cluster.intruded_ms, process.awake_since_ms, self._silent_ms)
        late_ms = self._world.now_ms - since_ms - INTRUDER_NOTICED_MS
        require(
            late_ms <= 0 or not group.members,
            Invariant.INTRUDER,
            "members:",
            sorted(group.members),
            "since",
            since_ms,
        )

    def given_up(self, process: Process) -> None:
        """The newest process gives way to consumers, not to anchors of its predecessors. Removals
        of anchors and joins without an answer may begin as many generations as a consumer does."""
        is_anchor = isinstance(process.found, LiveMembers) and process.found.anchored is not None
        cluster, since_ms = self._network.cluster, process.confirmed_ms - TRIP_MS_MAX
        begun = cluster.group.generation - process.confirmed_generation
        was_taken = cluster.intruded_ms > since_ms or begun >= GENERATIONS_OF_A_CONSUMER
        require(
            was_taken or not is_anchor, Invariant.GIVEN_UP, process.name, "found", process.found
        )

    # -- answers ---------------------------------------------------------------------------------

    def _check_answers(self, event: Event, step: Step) -> None:
        """Every request is answered once or parked."""
        unanswered = self._unanswered
        if not isinstance(event, Happening):
            unanswered.add(event.token)
        for token, _reply in step.replies:
            require(token in unanswered, Invariant.ANSWERS, "a second answer to", token)
            unanswered.remove(token)
        parked = self._parked
        require(
            unanswered == parked, Invariant.ANSWERS, "parked:", parked, "unanswered:", unanswered
        )

    def _check_replies(self, event: Event, step: Step, topics: Topics) -> None:
        """Invariant 3, also for native members."""
        _check_epochs_of_answers(event, step)
        group = self._state.group
        if isinstance(group, ClassicGroup):
            _check_classic_replies(group, event, step)
        if not isinstance(group, ConsumerGroup):
            return
        for token, reply in step.replies:
            if reply.error:
                continue
            match reply:
                case JoinGroupReply(member_id=member_id, generation=generation):
                    answered, held = generation, group.assignments[member_id].member_epoch
                    require(answered == held, Invariant.CLASSIC_REPLIES, answered, "not", held)
                case ConsumerHeartbeatReply(member_id=str(member_id), member_epoch=answered):
                    current = group.assignments.get(member_id)
                    is_true = current is None or (
                        answered == current.member_epoch
                        and reply.assignment in (None, current.assigned.keys())
                    )
                    require(is_true, Invariant.CLASSIC_REPLIES, reply, "not", current)
                    # A member that left with -2 expects no assignment.
                    if reply.assignment is None and current is not None and (answered or 0) > 0:
                        assert isinstance(event, ConsumerHeartbeatReceived)
                        assigned = current.assigned.keys()
                        self.owners.told_nothing_new(event, member_id, assigned)
                case SyncGroupReply(assignment=assignment) if (
                    isinstance(event, SyncGroupReceived) and event.token == token
                ):
                    self._check_synced(group, event.member_id, assignment, topics)
                case _:
                    pass

    def _check_synced(
        self, group: ConsumerGroup, member_id: str, assignment: bytes, topics: Topics
    ) -> None:
        _version, decoded = decode_assignment(assignment)
        answered = topics.partitions((e.topic, e.partitions) for e in decoded.assigned_partitions)
        assigned = group.assignments[member_id].assigned
        known = {partition for partition in assigned if partition.topic_id in topics.by_id}
        require(
            answered == known, Invariant.CLASSIC_REPLIES, member_id, "gets", answered, "not", known
        )

    # -- the log ---------------------------------------------------------------------------------

    def _check_replay(self, step: Step) -> None:
        """Invariant 8: the log restores the group; at some steps, also compacted. Nothing takes
        effect before the log has it."""
        log = self._driver.log
        if step.durable:
            is_stored = step.durable in (log.since(self._read) or ())[:1]
            require(is_stored, Invariant.LOGGED, "the log lacks", step.durable)
            self._read += 1
            self._replay(step.durable)
        if not step.durable and self._steps % SAMPLE:
            return
        check_restored(self._replayed, self._state)
        if self._steps % SAMPLE == 0:
            state = GroupState(GROUP)
            for record in self._compacted.values():
                state.apply(record)
            check_restored(state, self._state)

    def _replay(self, batch: Sequence[DurableRecord]) -> None:
        for record in batch:
            self._replayed.apply(record)
            supersede(self._compacted, record)

    # -- offsets ---------------------------------------------------------------------------------

    def _check_verdict(self, event: Event, step: Step) -> None:
        """Invariant 10: an accepted commit comes from an owner, with a valid epoch."""
        if isinstance(event, OffsetFetchReceived):
            self._check_old_fetch(event, dict(step.replies)[event.token])
        if not isinstance(event, OffsetCommitReceived) or dict(step.replies)[event.token].error:
            return
        self.owners.check_commit(self._network.name_of(event.token), event)
        group = self._state.group
        if group is not None and event.member_id in group.members:
            require(_may_commit(group, event), Invariant.STALE_COMMIT, event)

    def _check_replaced(self, event: Event, step: Step) -> None:
        """Only members that are away, or whose clients have ended, lose their instance ids to
        native joiners."""
        if not isinstance(event, ConsumerHeartbeatReceived):
            return
        before = self.epochs.facts
        for member_id, cause in removed_members(step).items():
            is_away = before.member_epochs.get(member_id) == STATIC_LEAVE_EPOCH
            if cause is RemovalCause.REPLACED and not is_away and member_id != event.member_id:
                self.owners.check_replaced(member_id)

    def _check_old_fetch(self, fetch: OffsetFetchReceived, reply: Reply) -> None:
        """A fetch with an older epoch of its member is answered if, and only if, it is safe."""
        group, partitions = self._state.group, fetch.partitions
        if not isinstance(group, ConsumerGroup) or not partitions or fetch.epoch <= JOIN_EPOCH:
            return
        current = group.assignments.get(fetch.member_id or "")
        if current is None or fetch.epoch >= current.member_epoch:
            return
        is_safe = _has_held_since(current, fetch.epoch, partitions)
        self._world.counts["old fetches" if is_safe else "stale fetches"] += 1
        is_refused = reply.error in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)
        require(is_refused is not is_safe, Invariant.OLD_FETCH, fetch, "gets", reply)

    def _check_commits(self, process: Process) -> None:
        """Invariant 10: the group knows every commit that the cluster may still store, even after
        a conversion. Those of earlier processes are fenced before a partition is granted, and the
        anchor fences those of non-members as long as there are members."""
        known, group = self._state.commits, self._state.group
        has_members = group is not None and bool(group.members)
        forgotten = [
            commit.request.token
            for commit in self._network.cluster.may_store(
                lambda commit: (
                    commit.sender == process.number
                    and not (commit.is_relayed or process.is_between)
                    and commit.request.token not in known
                    and (
                        commit.request.member_id
                        or (has_members and not commit.request.is_transactional)
                    )
                )
            )
        ]
        require(not forgotten, Invariant.OFFSETS, "forgotten commits in flight:", forgotten)

    def _check_grants(self, step: Step, *, has_moved: bool) -> None:
        """Invariant 10: no member gets a partition while its owner's commit is in flight."""
        state, before = self._state, self._held
        if has_moved:
            self._held = holders(state)
        now = self._held
        if not (state.commits or self._committing):
            return
        for token in [token for token in self._committing if token not in state.commits]:
            del self._committing[token]
        for token in state.commits.keys() - self._committing.keys():
            commit = state.commits[token]
            if commit.member_id == NO_MEMBER:
                continue
            partitions = [
                p for p in commit.partitions if now is None or now.get(p) == commit.member_id
            ]
            self._committing[token] = dict.fromkeys(partitions, commit.member_id)
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
                holder,
                "got",
                partition,
                "during a commit of",
                committer,
            )

    # -- probes ----------------------------------------------------------------------------------

    def _probe(
        self,
        event: Event,
        step: Step,
        config: GroupConfig,
        topics: Topics,
        now_ms: int,
        *,
        has_moved: bool,
    ) -> None:
        """Probe what the step has changed, and heartbeats. The heartbeats of a settled member need
        only one probe until the group moves."""
        state = self._state
        how: tuple[Any, ...] = (config, topics, now_ms)
        match state.group:
            case ConsumerGroup() if isinstance(event, HeartbeatReceived):
                replies: Mapping[int, Reply] = dict(step.replies)
                error = replies[event.token].error
                if error == ErrorCode.NONE:
                    self._probe_rejoin(event.member_id, *how)
                elif error == ErrorCode.REBALANCE_IN_PROGRESS:
                    check_rejoin_changes_something(state, event.member_id, *how)
            case _ if not has_moved:
                pass
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

    def _probe_rejoin(
        self, member_id: str, config: GroupConfig, topics: Topics, now_ms: int
    ) -> None:
        state = self._state
        if self._quiet.get(member_id) is topics:
            return
        check_rejoin_changes_nothing(state, member_id, config, topics, now_ms)
        assert isinstance(state.group, ConsumerGroup)
        if state.group.is_settled(member_id) or state.group.is_unaffected(member_id):
            self._quiet[member_id] = topics


def holders(state: GroupState) -> dict[Partition, str] | None:
    """The holder of each partition; None unless the group is a consumer group."""
    return state.group.holders.copy() if isinstance(state.group, ConsumerGroup) else None


def _may_commit(group: ClassicGroup | ConsumerGroup, commit: OffsetCommitReceived) -> bool:
    """Whether the commit has the member's epoch, or an older one for partitions that the member has
    held since then (rules 2.9, 3.15). After a downgrade the member may not know the generation yet
    (deviation D8)."""
    if isinstance(group, ConsumerGroup):
        current = group.assignments[commit.member_id]
    elif commit.epoch in (group.core.generation, group.core.older_epochs.get(commit.member_id)):
        return True
    else:
        held = group.core.held_at_downgrade or {}
        if commit.member_id not in held:
            return False
        current = held[commit.member_id]
    return commit.epoch == current.member_epoch or (
        commit.epoch < current.member_epoch
        and _has_held_since(current, commit.epoch, commit.partitions)
    )


def _has_held_since(current: Assignment, epoch: int, partitions: Set[Partition]) -> bool:
    return all(current.held_partitions.get(p, INT32_MAX) <= epoch for p in partitions)


def _check_epochs_of_answers(event: Event, step: Step) -> None:
    """A member continues with the epoch that it is told, so this must not mean to join or leave.
    Only the answer to a native leave repeats its negative epoch."""
    if isinstance(event, ConsumerHeartbeatReceived) and event.member_epoch < JOIN_EPOCH:
        return
    for _token, reply in step.replies:
        match reply:
            case ConsumerHeartbeatReply(error=ErrorCode.NONE, member_epoch=answered):
                require(answered > JOIN_EPOCH, Invariant.CLASSIC_REPLIES, reply)
            case JoinGroupReply(error=ErrorCode.NONE, generation=answered):
                require(answered > NO_GENERATION, Invariant.CLASSIC_REPLIES, reply)
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
