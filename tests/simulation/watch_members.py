"""Checks epochs, sessions and the migration policy from step to step (invariants 2, 6 and 9)."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from types import NoneType

from coordinator.engine import Step
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState, Record
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.events import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeatReceived,
    Event,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    OffsetCommitReceived,
    SyncGroupReceived,
)
from coordinator.interface.records import (
    ClassicGroupMetadata,
    CurrentAssignment,
    GroupEpoch,
    Member,
    MemberMetadata,
    MemberState,
    RemovalCause,
)
from coordinator.interface.volatile_records import (
    ClassicGroupMemberDropped,
    JoinReleased,
    MemberPhase,
    SyncReleased,
)
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.invariants import BrokenInvariantError, Invariant, require

TIMER_LAG_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts that are compared from step to step. `has_classic` applies to consumer groups."""

    kind: type[object] = NoneType
    epoch: int = 0
    member_epochs: Mapping[str, int] = field(default_factory=dict)
    has_native: bool = False
    has_classic: bool = False

    @classmethod
    def of(cls, state: GroupState) -> "Facts":
        match state.group:
            case ClassicGroup() as group:
                return cls(
                    kind=ClassicGroup,
                    epoch=group.core.generation,
                    member_epochs=dict.fromkeys(group.members, group.core.generation),
                )
            case ConsumerGroup() as group:
                return cls(
                    kind=ConsumerGroup,
                    epoch=group.epoch,
                    member_epochs={
                        id_: current.member_epoch for id_, current in group.assignments.items()
                    },
                    has_native=group.has_native_members,
                    has_classic=bool(group.phases),
                )
            case None:
                return cls()


def removed_members(step: Step) -> dict[str, RemovalCause]:
    """The members that this step removed, with the causes."""
    removed: dict[str, RemovalCause] = {}
    for record in step.records:
        match record:
            case ClassicGroupMemberDropped(member_id, cause):
                removed[member_id] = cause
            case MemberMetadata(member_id=member_id, value=None, cause=cause) if (
                cause is not None and cause is not RemovalCause.GROUP_CONVERTED
            ):
                removed[member_id] = cause
            case _:
                pass
    return removed


class EpochWatch:
    """Invariants 2 and 9."""

    def __init__(self) -> None:
        self.facts = Facts()

    def after_step(self, state: GroupState, step: Step, config: GroupConfig) -> None:
        before, now = self.facts, Facts.of(state)
        self.facts = now
        if before.member_epochs and now.member_epochs:
            if before.kind is now.kind:
                self._check_growth(before, now)
            else:
                _check_conversion(before, now, step.records)
        require(
            config.consumer_migration_policy is not MigrationPolicy.DISABLED
            or not (now.has_native and now.has_classic)
            # The group was mixed, or all classic, when the policy was set.
            or (before.kind is ConsumerGroup and before.has_classic),
            Invariant.POLICY,
            "members:",
            sorted(now.member_epochs),
        )

    def after_load(self, state: GroupState) -> None:
        self.facts = Facts.of(state)

    def _check_growth(self, before: Facts, now: Facts) -> None:
        require(
            now.epoch >= before.epoch,
            Invariant.EPOCHS,
            "the group epoch went from",
            before.epoch,
            "to",
            now.epoch,
        )
        if now.kind is not ConsumerGroup:
            return
        for member_id, epoch in now.member_epochs.items():
            epoch_before = before.member_epochs.get(member_id, epoch)
            if epoch < epoch_before and epoch != STATIC_LEAVE_EPOCH:
                reason = f"{member_id} went from {epoch_before} to {epoch}"
                raise BrokenInvariantError(Invariant.EPOCHS, reason)


def _check_conversion(before: Facts, now: Facts, records: tuple[Record, ...]) -> None:
    """A conversion preserves the generation or group epoch."""
    if now.kind is ConsumerGroup:
        carried = next(
            (r.epoch for r in records if isinstance(r, GroupEpoch) and r.epoch is not None), None
        )
        allowed = {before.epoch}
    else:
        carried = next(
            (
                r.value.generation
                for r in records
                if isinstance(r, ClassicGroupMetadata) and r.value
            ),
            None,
        )
        # A fence earlier in the same step may have bumped the epoch.
        bumps = {r.epoch for r in records if isinstance(r, GroupEpoch) and r.epoch is not None}
        allowed = {before.epoch} | bumps
    require(
        carried in allowed,
        Invariant.EPOCHS,
        "a conversion changed the epoch from",
        before.epoch,
        "to",
        carried,
    )
    require(
        now.epoch >= before.epoch,
        Invariant.EPOCHS,
        "a conversion took the group from",
        before.epoch,
        "to",
        now.epoch,
    )


@dataclass(slots=True)
class _Heard:
    """The time of a member's last sign of life, and the bounds of its silence after that."""

    at_ms: int
    session_ms: int
    longest_ms: int


class SilenceWatch:
    """Invariant 6: silent members are removed in time, and no session ends early."""

    def __init__(self) -> None:
        self.lag_ms = TIMER_LAG_MS
        """The longest delay with which the driver handles a deadline."""
        self._heard: dict[str, _Heard] = {}
        self._overdue: dict[tuple[str, object], tuple[int, int]] = {}
        self._duties: dict[tuple[str, object], int] = {}
        self._kind: type[object] = NoneType
        self._waiting: Set[str] = frozenset()
        """Members whose requests are parked."""
        self._config: GroupConfig | None = None

    def after_step(
        self,
        state: GroupState,
        event: Event,
        step: Step,
        config: GroupConfig,
        now_ms: int,
        *,
        has_moved: bool = True,
    ) -> None:
        """`has_moved`: whether a record of the step changed the group itself."""
        spoke = self._who_spoke(event, step)
        heard = self._waiting | spoke
        if has_moved:
            self._check_removals(event, step, now_ms)
            kind_before = self._kind
            self._look_at(state)
            heard |= self._waiting
            if kind_before is not self._kind and state.group is not None:
                heard |= state.group.members.keys()
            # A leader's SyncGroup is parked and released within one step.
            heard |= {
                record.member_id
                for record in step.records
                if isinstance(record, JoinReleased | SyncReleased)
            }
        if has_moved or config is not self._config:
            self._config = config
            self._record(state, heard, config, now_ms)
        else:
            for member_id in heard & self._heard.keys():
                self._heard[member_id].at_ms = now_ms
        for member_id, last in self._heard.items():
            if now_ms - last.at_ms > last.longest_ms + self.lag_ms:
                reason = f"{member_id} has been silent for {now_ms - last.at_ms} ms"
                raise BrokenInvariantError(Invariant.SILENCE, f"{reason} and is still a member")
        self._check_duties(state, spoke, step, now_ms)

    def after_load(self, state: GroupState, config: GroupConfig, read_ms: int) -> None:
        """`read_ms`: when the state was read; the process may have been paused since."""
        self._config = config
        self._look_at(state)
        self._heard.clear()
        self._overdue.clear()
        self._record(state, frozenset(), config, read_ms)

    def _look_at(self, state: GroupState) -> None:
        group = state.group
        self._kind = type(group)
        self._waiting = frozenset()
        if isinstance(group, ClassicGroup) and (group.joins or group.syncs):
            self._waiting = group.joins.keys() | group.syncs.keys()
        self._duties = _duties(state)

    def _check_removals(self, event: Event, step: Step, now_ms: int) -> None:
        """No member is removed as if it had left, or too early."""
        for member_id, cause in removed_members(step).items():
            is_due = cause is not RemovalCause.LEFT or _asks_to_leave(event)
            require(is_due, Invariant.SILENCE, member_id, "has not left, but", event)
            heard = self._heard.get(member_id)
            if cause is RemovalCause.SESSION_EXPIRED and heard is not None:
                require(
                    now_ms - heard.at_ms >= heard.session_ms,
                    Invariant.SILENCE,
                    member_id,
                    "was fenced after",
                    now_ms - heard.at_ms,
                    "ms of silence, although its session timeout is",
                    heard.session_ms,
                    "ms",
                )

    def _who_spoke(self, event: Event, step: Step) -> set[str]:
        """The members whose sessions this request restarted."""
        accepted = {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}
        match event:
            case HeartbeatReceived() | JoinGroupReceived():
                pass
            case ConsumerHeartbeatReceived(member_epoch=epoch) if epoch >= JOIN_EPOCH:
                # The refusal that asks for the owned partitions restarts the session (DEV D67).
                accepted |= {ErrorCode.COORDINATOR_NOT_AVAILABLE}
            case SyncGroupReceived() if self._kind is ConsumerGroup:
                accepted = {ErrorCode.NONE}
            case OffsetCommitReceived(is_transactional=False) if self._kind is ClassicGroup:
                accepted = {ErrorCode.NONE}
            case _:
                return set()
        answers = [reply for token, reply in step.replies if token == event.token]
        if any(reply.error not in accepted for reply in answers):
            return set()
        named = {getattr(reply, "member_id", None) or event.member_id for reply in answers}
        return named or {event.member_id}

    def _record(self, state: GroupState, spoke: Set[str], config: GroupConfig, now_ms: int) -> None:
        limits = _limits(state, config)
        for member_id in [id_ for id_ in self._heard if id_ not in limits]:
            del self._heard[member_id]
        for member_id, (session_ms, longest_ms) in limits.items():
            heard = self._heard.get(member_id)
            if heard is None or member_id in spoke:
                self._heard[member_id] = _Heard(now_ms, session_ms, longest_ms)
            else:
                heard.session_ms = min(heard.session_ms, session_ms)
                heard.longest_ms = max(heard.longest_ms, longest_ms)

    def _check_duties(self, state: GroupState, spoke: Set[str], step: Step, now_ms: int) -> None:
        """A member revokes, rejoins and syncs within its rebalance timeout."""
        if not (self._duties or self._overdue):
            return
        classic = state.group.phases if isinstance(state.group, ConsumerGroup) else {}
        for duty in [duty for duty in self._overdue if duty not in self._duties]:
            del self._overdue[duty]
        restarted = {
            (record.member_id, MemberState.UNREVOKED_PARTITIONS)
            for record in step.records
            # A rejoin does not extend the time of a classic member.
            if isinstance(record, CurrentAssignment) and record.member_id not in classic
        } | {(id_, MemberPhase.COMPLETING_REBALANCE) for id_ in spoke}
        for duty, timeout_ms in self._duties.items():
            if duty not in self._overdue or duty in restarted:
                self._overdue[duty] = (now_ms, timeout_ms)
            since_ms, limit_ms = self._overdue[duty]
            if now_ms - since_ms > limit_ms + self.lag_ms:
                reason = f"{duty} for {now_ms - since_ms} ms of {limit_ms} ms"
                raise BrokenInvariantError(Invariant.SILENCE, reason)


def _asks_to_leave(event: Event) -> bool:
    match event:
        case LeaveGroupReceived():
            return True
        case ConsumerHeartbeatReceived(member_epoch=epoch):
            return epoch < JOIN_EPOCH
        case _:
            return False


def _limits(state: GroupState, config: GroupConfig) -> dict[str, tuple[int, int]]:
    """Each member's session timeout, and the longer one of session and rebalance timeout."""
    group = state.group
    if group is None:
        return {}
    limits = {}
    native_ms = config.consumer_session_timeout_ms
    for member_id, member in group.members.items():
        classic = member.classic if isinstance(member, Member) else member
        session_ms = classic.session_timeout_ms if classic is not None else native_ms
        limits[member_id] = (session_ms, max(session_ms, member.rebalance_timeout_ms))
    return limits


def _duties(state: GroupState) -> dict[tuple[str, object], int]:
    """The duties of a consumer group's members, with the timeout of each in milliseconds."""
    group = state.group
    if not isinstance(group, ConsumerGroup):
        return {}
    duties: dict[tuple[str, object], int] = {}
    for member_id, member in group.members.items():
        current = group.assignments[member_id]
        if (
            current.state is MemberState.UNREVOKED_PARTITIONS
            and current.member_epoch != STATIC_LEAVE_EPOCH
        ):
            duties[member_id, current.state] = member.rebalance_timeout_ms
        phase = group.phases.get(member_id, MemberPhase.STABLE)
        if phase is not MemberPhase.STABLE:
            duties[member_id, phase] = member.rebalance_timeout_ms
    return duties
