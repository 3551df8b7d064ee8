"""The engine of one group. Only `handle` decides, and only `apply` changes the state.

The driver writes the durable records of a step to the log, applies every record, and only then
sends the replies. If the log refuses the records, the driver drops the step: nothing has happened.
"""

from collections.abc import Collection, Iterable
from typing import Self, assert_never

from coordinator.classic.durability import store_removals
from coordinator.classic.subscriptions import topics_in_force
from coordinator.consumer import client_side, external_assignors
from coordinator.consumer.regexes import regexes_resolved
from coordinator.conversion import classic_only
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.deadline_queue import DeadlineQueue
from coordinator.group.load import arm_after_load, newest
from coordinator.group.state import GroupState, Record
from coordinator.group.step_builder import StepBuilder
from coordinator.handlers import (
    adoption,
    claim,
    classic_requests,
    group_configs,
    offsets,
    release,
    steady,
)
from coordinator.handlers.expired_deadlines import deadline_reached
from coordinator.handlers.group_lost import fence_all_members
from coordinator.handlers.leavers import end_slot_of_leaver
from coordinator.handlers.size_limits import check_size
from coordinator.handlers.steady import SteadyStep
from coordinator.handlers.views import describe, summarize
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError, InvariantError
from coordinator.interface.events import (
    AdoptionEnded,
    AdoptionMoved,
    AssignmentReceived,
    ClaimReceived,
    ConfigsReceived,
    ConsumerHeartbeatReceived,
    DeleteGroupReceived,
    Event,
    GroupLost,
    Happening,
    HeartbeatReceived,
    InstallAssignmentReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    LeaverStayed,
    OffsetCommitEnded,
    OffsetCommitReceived,
    OffsetDeleteReceived,
    OffsetFetchReceived,
    PrepareAssignmentReceived,
    RegexesResolved,
    ReleaseBegan,
    ReleaseMoved,
    Request,
    SyncGroupReceived,
    TimePassed,
)
from coordinator.interface.records import DurableRecord, GroupConfigs
from coordinator.interface.replies import ConfigView, GroupView, Reply
from coordinator.interface.topics import Topics
from coordinator.interface.value import value
from coordinator.interface.volatile_records import (
    CommitStarted,
    Computation,
    DeadlineKind,
    DeadlineSet,
    RegexResolution,
    Token,
)
from coordinator.native.heartbeat import heartbeat as consumer_heartbeat
from kafka_codecs.error_codes import ErrorCode


@value()
class Step:
    """The outcome of one event. The driver acts on the fields in this order."""

    records: tuple[Record, ...] = ()
    """`apply` every one, once the durable ones are in the log."""

    durable: tuple[DurableRecord, ...] = ()
    """The records that the log needs, all or none."""

    replies: tuple[tuple[Token, Reply], ...] = ()
    """Send these last. A later step answers parked requests."""

    resolution: RegexResolution | None = None
    """Regular expressions to match against all topic names of the cluster, in the background.
    `RegexesResolved` must follow."""

    computation: Computation | None = None
    """A target to have computed by a plug-in. `AssignmentReceived` must follow."""


def step_of(event: Event, decided: SteadyStep) -> Step:
    """The step that `handle` would return."""
    records, reply = decided
    if reply is None or isinstance(event, Happening):
        return Step(records=records)
    return Step(records=records, replies=((event.token, reply),))


class GroupEngine:
    """One group. Deadlines are part of its state: poll `next_deadline_ms` and send `TimePassed`."""

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self._broker_config = config
        self._config = config  # including the group's overrides
        self.state = GroupState(group_id)
        self._deadlines: DeadlineQueue | None = DeadlineQueue({})  # None until a fork needs it
        self._original: Self | None = None  # of a fork in use
        self._readers = 0  # steps being decided on this state, and forks in use

    def fork(self) -> Self:
        """A copy-on-write copy of the group. The original cannot change until its `release`."""
        twin = type(self)(self.state.group_id, self._broker_config)
        twin._original = self
        self._readers += 1
        twin._config = self._config
        twin.state = self.state.fork()
        twin._deadlines = None
        return twin

    def release(self) -> None:
        """End the use of this fork, so that the original may change."""
        assert self._original is not None, "not a fork in use"
        self._original._readers -= 1
        self._original = None

    def load(self, records: Iterable[DurableRecord], *, now_ms: int) -> None:
        """Load a group from its log and restart its timers (rules 2.10, 3.12)."""
        for record in newest(records):
            self.apply(record)
        for volatile in arm_after_load(self.state, self._config, now_ms=now_ms):
            self.apply(volatile)

    def keep_commits(self, before: Self) -> None:
        """Take over the commits in flight from the previous engine of the group. They are in no
        log, but the cluster may still store them."""
        for commit, in_flight in before.state.commits.items():
            self.apply(CommitStarted(commit, in_flight))
        for key, at_ms in before.state.deadlines.items():
            if key.kind is DeadlineKind.LOST_COMMIT:
                self.apply(DeadlineSet(key, at_ms))

    def handle(
        self, event: Event, *, now_ms: int, topics: Topics, may_take_long: bool = True
    ) -> Step:
        """Decide what an event leads to, without changing the state.

        Without `may_take_long`, raises LongComputation instead of computing the target of a large
        group. The driver then repeats the call in a thread, and applies nothing until it returns.
        Raises InvariantError if a rule of the engine itself broke.
        """
        step = StepBuilder(
            self.state,
            config=self._config,
            topics=topics,
            now_ms=now_ms,
            may_take_long=may_take_long,
        )
        self._readers += 1
        try:
            _check_group_id(self.state.group_id, event)
            check_size(event, step.topics)
            if isinstance(event, Happening):
                self._take_note(step, event)
            else:
                if self.state.release is not None:
                    release.check_not_leaving(step, event)
                self._decide(step, event)
            match step.state.group:
                case ConsumerGroup() as group:
                    if group.is_left_to_classic_members or step.is_armed(DeadlineKind.TARGET_DUE):
                        classic_only.schedule(step)
                case ClassicGroup() as group:
                    store_removals(step, group)
                case None:
                    pass
            if (step.state.group is None) != (self.state.group is None):
                claim.follow_group(step, event)
        except GroupError as refusal:
            if isinstance(event, Happening):
                raise InvariantError("an event that is not a request was refused") from refusal
            return Step(replies=((event.token, event.refuse(refusal)),))
        finally:
            self._readers -= 1
        return Step(
            records=tuple(step.records),
            durable=tuple(step.durable),
            replies=tuple(step.replies),
            resolution=step.resolution,
            computation=step.computation,
        )

    def decide_at_rest(
        self, event: Event, *, now_ms: int, topics: Topics, answers_within_ms: int = 0
    ) -> SteadyStep | None:
        """What `handle` would decide on an event that meets a group at rest, at a fraction of the
        cost. None for any other event. `answers_within_ms`: how long the latest heartbeats of the
        group took to be answered, if the event does not say it."""
        return steady.decide(
            self.state,
            event,
            config=self._config,
            topics=topics,
            now_ms=now_ms,
            answers_within_ms=answers_within_ms,
        )

    def apply(self, record: Record) -> None:
        """Apply one record of a step to the state. Raises InvariantError while a step is being
        decided on the state, or a fork of it is in use."""
        if self._readers:
            raise InvariantError("a group changed while a copy of it was in use")
        self.state.apply(record)
        if isinstance(record, DeadlineSet):
            if self._deadlines is not None:
                self._deadlines.record(record, self.state.deadlines)
        elif isinstance(record, GroupConfigs):
            self._config = group_configs.in_force(self._broker_config, record.overrides)

    def next_deadline_ms(self) -> int | None:
        """When to handle `TimePassed` next, in wall-clock milliseconds."""
        queue = self._deadlines if self._deadlines is not None else self._index_deadlines()
        return queue.next_ms(self.state.deadlines)

    def describe(self, topics: Topics) -> GroupView:
        """The group as admin tools see it."""
        return describe(self.state, config=self._config, topics=topics)

    def summarize(self) -> GroupView:
        """The group without its members, for lists of groups."""
        return summarize(self.state, config=self._config)

    @property
    def epoch(self) -> int:
        """The group epoch, or the generation of a classic group; 0 without a group. It changes with
        the subscribed topics."""
        match self.state.group:
            case None:
                return 0
            case ClassicGroup(core=core):
                return core.generation
            case ConsumerGroup(epoch=epoch):
                return epoch

    def subscribed_topics(self) -> Collection[str]:
        """The topics that members subscribe to, as far as known. In a classic group, those of the
        present generation, which the cluster may not know."""
        match self.state.group:
            case None:
                return ()
            case ClassicGroup() as group:
                return topics_in_force(group) or ()
            case ConsumerGroup(subscribers=subscribers):
                return subscribers.keys()

    def describe_configs(self) -> tuple[ConfigView, ...]:
        """The group's configs as admin tools see them. The group itself need not exist."""
        return group_configs.describe(self.state.config_overrides, self._broker_config)

    def _decide(self, step: StepBuilder, event: Request) -> None:  # noqa: PLR0912  # one case each
        match event:
            case JoinGroupReceived():
                classic_requests.join(step, event)
            case SyncGroupReceived():
                classic_requests.sync(step, event)
            case HeartbeatReceived():
                classic_requests.heartbeat(step, event)
            case LeaveGroupReceived():
                classic_requests.leave(step, event)
            case ConsumerHeartbeatReceived():
                consumer_heartbeat(step, event)
            case PrepareAssignmentReceived():
                client_side.prepare(step, event)
            case InstallAssignmentReceived():
                client_side.install(step, event)
            case OffsetCommitReceived():
                offsets.commit(step, event)
            case OffsetFetchReceived():
                offsets.fetch(step, event)
            case OffsetDeleteReceived():
                offsets.delete(step, event)
            case DeleteGroupReceived():
                offsets.delete_group(step, event)
            case ClaimReceived():
                claim.claim(step, event)
            case ConfigsReceived():
                group_configs.alter(step, event, self._broker_config)
            case _:
                assert_never(event)

    def _take_note(self, step: StepBuilder, event: Happening) -> None:
        match event:
            case OffsetCommitEnded():
                offsets.commit_ended(step, event)
            case RegexesResolved():
                regexes_resolved(step, event)
            case AssignmentReceived():
                external_assignors.receive(step, event)
            case GroupLost(cause=cause):
                fence_all_members(step, cause)
            case AdoptionMoved():
                adoption.record(step, event)
            case AdoptionEnded():
                adoption.adopt(step)
            case ReleaseBegan():
                release.begin(step, event)
            case ReleaseMoved():
                release.record_progress(step, event)
            case LeaverStayed():
                end_slot_of_leaver(step, event)
            case TimePassed():
                self._pass_time(step)
            case _:
                assert_never(event)

    def _index_deadlines(self) -> DeadlineQueue:
        if self._deadlines is None:
            self._deadlines = DeadlineQueue(self.state.deadlines)
        return self._deadlines

    def _pass_time(self, step: StepBuilder) -> None:
        for key in self._index_deadlines().due(self.state.deadlines, step.now_ms):
            # An earlier deadline of this loop may have cleared or moved this one.
            if step.state.deadlines.get(key) == self.state.deadlines[key]:
                deadline_reached(step, key)


def _check_group_id(group_id: str, event: Event) -> None:
    """Raises GroupError: INVALID_REQUEST for a blank id in the new protocol (rule 3.2),
    INVALID_GROUP_ID for an empty id in all other requests."""
    if isinstance(
        event,
        ConsumerHeartbeatReceived | PrepareAssignmentReceived | InstallAssignmentReceived,
    ):
        if not group_id.strip():
            raise GroupError(ErrorCode.INVALID_REQUEST, "the group id is blank")
    elif not group_id:
        echo_id = event.member_id if isinstance(event, JoinGroupReceived) else ""
        raise GroupError(ErrorCode.INVALID_GROUP_ID, "the group id is empty", member_id=echo_id)
