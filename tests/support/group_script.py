"""Drives one group engine as the gateway does, so that scenarios read like the protocol.

It applies and checks every step: `handle` changed nothing, the invariants hold, and every request
is answered or parked. A failing expectation prints the `conversation`.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from coordinator.assignors import spec_of
from coordinator.assignors.uniform import assign_uniformly
from coordinator.consumer.topic_regex import match_topics
from coordinator.engine import GroupEngine, Step, step_of
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    JOIN_EPOCH,
    AssignmentReceived,
    ConfigChange,
    ConfigOperation,
    ConfigsReceived,
    DeleteGroupReceived,
    Event,
    Happening,
    InstallAssignmentReceived,
    OffsetCommitEnded,
    OffsetDeleteReceived,
    OffsetFetchReceived,
    PrepareAssignmentReceived,
    RegexesResolved,
    Request,
    TimePassed,
)
from coordinator.interface.records import (
    Assignment,
    ClassicGroupMember,
    DurableRecord,
)
from coordinator.interface.replies import (
    ConfigsReply,
    ConsumerHeartbeatReply,
    DeleteGroupReply,
    GroupView,
    HeartbeatReply,
    InstallAssignmentReply,
    JoinGroupReply,
    LeaveGroupReply,
    OffsetDeleteReply,
    OffsetReply,
    PrepareAssignmentReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import (
    Computation,
    DeadlineKey,
    DeadlineKind,
    Grant,
    GrantMoved,
    RepetitionMoved,
    Token,
)
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.invariants import check_group
from tests.simulation.replay import (
    DurableState,
    check_replay,
    durable_state,
    parked_tokens,
    snapshot,
)
from tests.support.engine_requests import (
    commit_received,
    heartbeat_received,
    join_received,
    leave_received,
    native_received,
    sync_received,
)
from tests.support.group_records import GivenMember, classic_group, consumer_group
from tests.support.group_values import (
    Owned,
    embedded_assignment,
    make_topics,
    partitions,
    read_assignment,
    subscription,
    topic_id,
)
from tests.support.hypothesis_profile import thinned_out

__all__ = [
    "GroupScript",
    "Owned",
    "embedded_assignment",
    "make_topics",
    "partitions",
    "read_assignment",
    "subscription",
    "topic_id",
]

R = TypeVar("R", bound=Reply)
CUTS_CHECKED_MAX = 20
"""How many lengths of a log are loaded again under the profile `quick`."""


class GroupScript:
    """One group, driven step by step. Times are milliseconds of a clock that only `wait`
    advances."""

    def __init__(self, *, config: GroupConfig | None = None, topics: Topics | None = None) -> None:
        self.config = config or GroupConfig()
        self.topics = topics or make_topics(foo=3)
        self.now_ms = 1_000_000
        self.engine = GroupEngine("orders", self.config)
        self.log: list[DurableRecord] = []
        self.answers: dict[int, Reply] = {}
        self.last_step = Step()
        self.conversation: list[tuple[str, object]] = []
        self.log_is_broken = False
        self._tokens = itertools.count(1)
        self._newest_connection = 0
        self._asked: set[int] = set()
        self._cuts: list[tuple[int, DurableState]] = []

    # -- driving ---------------------------------------------------------------------------------

    def feed(self, event: Event) -> Step:
        """Handle one event as the driver does."""
        before = snapshot(self.engine.state)
        steady = self.engine.decide_at_rest(event, now_ms=self.now_ms, topics=self.topics)
        step = self.engine.handle(event, now_ms=self.now_ms, topics=self.topics)
        assert steady is None or step_of(event, steady) == step, (
            "the shorter way decides otherwise\n" + self.transcript()
        )
        self.conversation += [("> ", event), *(("  ", record) for record in step.records)]
        assert snapshot(self.engine.state) == before, (
            "handle changed the state\n" + self.transcript()
        )
        assert not (step.resolution and self.engine.state.resolution), "two resolutions at a time"
        assert not (step.computation and self._computation()), "two computations at a time"
        if self.log_is_broken and step.durable:
            self._refuse(event)
            return step
        epoch_before = self._group_epoch()
        self.conversation += [(f"< {token}: ", reply) for token, reply in step.replies]
        for record in step.records:
            self.engine.apply(record)
        self.answers.update(step.replies)
        self.last_step = step
        self._check(event, epoch_before)
        if step.durable:
            self.log.extend(step.durable)
            self._cuts.append((len(self.log), durable_state(self.engine.state)))
        return step

    def _refuse(self, event: Event) -> None:
        """Refuse the request, because the log cannot store the batch. The state does not change."""
        if not isinstance(event, Happening):
            reason = GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the state log failed")
            self.answers[event.token] = event.refuse(reason)

    def _check(self, event: Event, epoch_before: int) -> None:
        try:
            check_group(self.engine.state)
            self._check_classic_replies()
            if not isinstance(event, Happening):
                self._asked.add(event.token)
            assert self._asked - self.answers.keys() == parked_tokens(self.engine.state)
            assert self._group_epoch() == 0 or self._group_epoch() >= epoch_before
        except AssertionError as broken:
            raise AssertionError(f"{broken}\n{self.transcript()}") from broken

    def _check_classic_replies(self) -> None:
        """A consumer group answers a classic member with its member epoch and its assignment."""
        group = self.engine.state.group
        if not isinstance(group, ConsumerGroup):
            return
        for reply in dict(self.last_step.replies).values():
            if isinstance(reply, JoinGroupReply) and reply.error == 0:
                assert reply.generation == group.assignments[reply.member_id].member_epoch

    def _computation(self) -> Computation | None:
        group = self.engine.state.group
        return group.computation if isinstance(group, ConsumerGroup) else None

    def _group_epoch(self) -> int:
        """The group epoch. It grows through every conversion, and restarts with a group without
        members."""
        match self.engine.state.group:
            case ClassicGroup() as group if group.members:
                return group.core.generation
            case ConsumerGroup() as group if group.members:
                return group.epoch
            case _:
                return 0

    def check_replay(self) -> None:
        """Loading the log up to any batch restores the group of that time."""
        for length, expected in thinned_out(self._cuts, CUTS_CHECKED_MAX):
            check_replay(self.log[:length], expected, config=self.config, now_ms=self.now_ms)

    def wait(self, length_ms: int) -> None:
        end_ms = self.now_ms + length_ms
        while (at_ms := self.engine.next_deadline_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.feed(TimePassed())
        self.now_ms = end_ms

    def restart(self) -> None:
        """Drop the volatile state and load the group from its log."""
        self.engine = GroupEngine("orders", self.config)
        self.engine.load(self.log, now_ms=self.now_ms)
        self._asked &= self.answers.keys()

    def load(self, *records: DurableRecord) -> None:
        """Start with a stored group."""
        self.log.extend(records)
        self.restart()
        self._cuts.append((len(self.log), durable_state(self.engine.state)))

    def given_consumer_group(
        self,
        *members: GivenMember,
        epoch: int = 10,
        assignment_epoch: int | None = None,
        timestamp_ms: int = 0,
        has_target: bool = True,
        regexes: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """Start with a consumer group whose members have acknowledged their assignments. Its target
        has the group epoch unless stated."""
        if assignment_epoch is None and has_target:
            assignment_epoch = epoch
        self.load(
            *consumer_group(
                *members,
                epoch=epoch,
                assignment_epoch=assignment_epoch,
                timestamp_ms=timestamp_ms,
                image=self.topics,
                regexes=regexes or {},
            )
        )
        for member_id in list(self.consumer.repetitions):
            epoch = self.current(member_id).member_epoch
            self.engine.apply(RepetitionMoved(member_id, None))
            grant = Grant(connection=0, newest_connection=0, member_epoch=epoch)
            self.engine.apply(GrantMoved(member_id, grant))

    def given_classic_group(
        self, *members: ClassicGroupMember, generation: int = 0, protocol_type: str = "consumer"
    ) -> None:
        """Start with a Stable classic group, led by its first member."""
        self.load(*classic_group(*members, generation=generation, protocol_type=protocol_type))

    def answer(self, token: int, kind: type[R]) -> R:
        """The answer to a request. It must exist."""
        assert token in self.answers, "not answered yet\n" + self.transcript()
        reply = self.answers[token]
        assert isinstance(reply, kind), self.transcript()
        return reply

    def is_parked(self, token: int) -> bool:
        return token not in self.answers

    def transcript(self) -> str:
        """The whole conversation, for the message of a failing test."""
        return "\n".join(f"{prefix}{line}" for prefix, line in self.conversation)

    # -- requests, with the fields that `engine_requests.py` knows --------------------------------

    def send(self, make: Callable[..., Request], *values: Any, **fields: Any) -> Token:
        """Send a request and return its token, because it may be parked."""
        token = next(self._tokens)
        self.feed(make(*values, token=token, **fields))
        return token

    def ask(self, kind: type[R], make: Callable[..., Request], *values: Any, **fields: Any) -> R:
        """Send a request that is answered immediately."""
        return self.answer(self.send(make, *values, **fields), kind)

    def send_join(self, member_id: str = "", **fields: Any) -> Token:
        """Send a JoinGroup, which may be parked."""
        return self.send(join_received, member_id, **fields)

    def join(self, member_id: str = "", **fields: Any) -> JoinGroupReply:
        return self.ask(JoinGroupReply, join_received, member_id, **fields)

    def take_id(self, **fields: Any) -> str:
        """Send the first JoinGroup of a dynamic member and return the id that the group hands
        out."""
        return self.join(**fields).member_id

    def send_sync(self, member_id: str, generation: int, **fields: Any) -> Token:
        """Send a SyncGroup, which may be parked."""
        return self.send(sync_received, member_id, generation, **fields)

    def sync(self, member_id: str, generation: int, **fields: Any) -> SyncGroupReply:
        return self.ask(SyncGroupReply, sync_received, member_id, generation, **fields)

    def sync_assignment(
        self, member_id: str, generation: int, **fields: Any
    ) -> dict[str, tuple[int, ...]]:
        """Send a SyncGroup and return the assignment."""
        reply = self.sync(member_id, generation, **fields)
        assert reply.error == 0, self.transcript()
        return read_assignment(reply.assignment)

    def beat(self, member_id: str, generation: int, **fields: Any) -> HeartbeatReply:
        return self.ask(HeartbeatReply, heartbeat_received, member_id, generation, **fields)

    def leave(
        self, *members: str | tuple[str, str | None], reason: str | None = None
    ) -> LeaveGroupReply:
        return self.ask(LeaveGroupReply, leave_received, *members, reason=reason)

    def native(
        self,
        member_id: str,
        epoch: int = JOIN_EPOCH,
        *,
        connection: int = 0,
        newest_connection: int = 0,
        **fields: Any,
    ) -> ConsumerHeartbeatReply:
        """Send a ConsumerGroupHeartbeat. `newest_connection`: one that has been opened, in addition
        to those that have been used."""
        self._newest_connection = max(self._newest_connection, connection, newest_connection)
        return self.ask(
            ConsumerHeartbeatReply,
            native_received,
            member_id,
            epoch,
            connection=connection,
            newest_connection=self._newest_connection,
            **fields,
        )

    def prepare(self, member_id: str, epoch: int) -> PrepareAssignmentReply:
        return self.ask(
            PrepareAssignmentReply,
            PrepareAssignmentReceived,
            member_id=member_id,
            member_epoch=epoch,
        )

    def install(
        self,
        member_id: str,
        epoch: int,
        group_epoch: int,
        target: Mapping[str, Owned] | None = None,
        **fields: Any,
    ) -> InstallAssignmentReply:
        return self.ask(
            InstallAssignmentReply,
            InstallAssignmentReceived,
            member_id=member_id,
            member_epoch=epoch,
            group_epoch=group_epoch,
            target=_partitions_by_member(target),
            **fields,
        )

    def resolve(self, *, fails: bool = False) -> Step:
        """Match the pending regular expressions against the present topics."""
        resolution = self.engine.state.resolution
        assert resolution is not None, "nothing is being resolved\n" + self.transcript()
        matched = None if fails else match_topics(resolution.regexes, self.topics.by_name)
        return self.feed(RegexesResolved(topics=matched, version=self.topics.names_version))

    def finish_computation(
        self,
        target: Mapping[str, Owned] | None = None,
        *,
        epoch: int | None = None,
        reason: str = "",
    ) -> Step:
        """A plug-in answers the computation under way: with this target, a good one, or none."""
        computation = self.consumer.computation
        if epoch is None:
            assert computation is not None, "nothing is being computed\n" + self.transcript()
            epoch = computation.epoch
        if target is not None or reason:
            changed = _partitions_by_member(target)
            return self.feed(AssignmentReceived(epoch=epoch, target=changed, failure=reason))
        assert computation is not None
        return self.feed(
            AssignmentReceived(epoch=epoch, target=assign_uniformly(spec_of(computation)))
        )

    # -- offsets ---------------------------------------------------------------------------------

    def commit(
        self, member_id: str, epoch: int, of: Owned, **fields: Any
    ) -> tuple[Token, OffsetReply]:
        """Send an OffsetCommit, and return its token, too."""
        token = self.send(commit_received, member_id, epoch, of, self.topics, **fields)
        return token, self.answer(token, OffsetReply)

    def fetch(
        self, member_id: str | None = None, epoch: int = -1, of: Owned | None = None
    ) -> OffsetReply:
        """Send an OffsetFetch, for all partitions if none are named."""
        return self.ask(
            OffsetReply,
            OffsetFetchReceived,
            member_id=member_id,
            epoch=epoch,
            partitions=None if of is None else partitions(of),
        )

    def delete_offsets(self, *topic_names: str) -> OffsetDeleteReply:
        return self.ask(OffsetDeleteReply, OffsetDeleteReceived, topic_names=topic_names)

    def delete_group(self) -> DeleteGroupReply:
        return self.ask(DeleteGroupReply, DeleteGroupReceived)

    def alter_configs(
        self, *, validate_only: bool = False, **values: int | str | None
    ) -> ConfigsReply:
        """Send an IncrementalAlterConfigs: `session_timeout=50_000` sets that key, None deletes
        it."""
        changes = tuple(
            ConfigChange(
                name=f"consumer.{name.replace('_', '.')}.ms",
                operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET,
                value=None if value is None else str(value),
            )
            for name, value in values.items()
        )
        return self.ask(ConfigsReply, ConfigsReceived, changes=changes, validate_only=validate_only)

    def set_policy(self, policy: RollMode, *, native_away: int = 0) -> ConfigsReply:
        return self.ask(ConfigsReply, ConfigsReceived, policy=policy, native_away=native_away)

    def announce_roll(self, *, announces: bool) -> ConfigsReply:
        return self.ask(ConfigsReply, ConfigsReceived, announces_roll=announces)

    def commit_answered(self, token: int, *, lost: bool = False) -> None:
        """The cluster answered a commit, or its answer was lost."""
        self.feed(OffsetCommitEnded(commit=token, answer_lost=lost))

    # -- looking ---------------------------------------------------------------------------------

    @property
    def classic(self) -> ClassicGroup:
        assert isinstance(self.engine.state.group, ClassicGroup), self.transcript()
        return self.engine.state.group

    @property
    def consumer(self) -> ConsumerGroup:
        assert isinstance(self.engine.state.group, ConsumerGroup), self.transcript()
        return self.engine.state.group

    def current(self, member_id: str) -> Assignment:
        """The current assignment of a consumer group's member."""
        return self.consumer.assignments[member_id]

    def granted_partitions(self, member_id: str) -> dict[str, tuple[int, ...]]:
        """The granted partitions of a consumer group's member, as names and numbers."""
        return self.names_of(self.current(member_id).assigned)

    def left_ms(self, kind: DeadlineKind, owner: str = "") -> int | None:
        """The remaining milliseconds of a timer, or None if it is not running."""
        at_ms = self.engine.state.deadlines.get(DeadlineKey(kind, owner))
        return None if at_ms is None else at_ms - self.now_ms

    def view(self) -> GroupView:
        return self.engine.describe(self.topics)

    def names_of(self, held: Iterable[Partition] | None) -> dict[str, tuple[int, ...]]:
        """Partitions as names and numbers."""
        assert held is not None, self.transcript()
        return self.topics.names(held)

    # -- situations ------------------------------------------------------------------------------

    def stable_classic_group(
        self, assignments: Mapping[str, Owned], *, topics: Iterable[str] = ("foo",), **how: Any
    ) -> dict[str, str]:
        """Form a Stable classic group. The keys of `assignments` name the members, whose ids it
        returns."""
        ids = {name: self.take_id(topics=topics, **how) for name in assignments}
        tokens = {name: self.send_join(id_, topics=topics, **how) for name, id_ in ids.items()}
        self.wait(3 * self.config.classic_initial_rebalance_delay_ms)
        replies = {name: self.answer(token, JoinGroupReply) for name, token in tokens.items()}
        generation = next(iter(replies.values())).generation
        leader = next(iter(replies.values())).leader
        for id_ in [*(i for i in ids.values() if i != leader), leader]:
            self.send_sync(
                id_,
                generation,
                assignments={ids[name]: owned for name, owned in assignments.items()},
            )
        return ids


def _partitions_by_member(
    target: Mapping[str, Owned] | None,
) -> Mapping[str, frozenset[Partition]]:
    return {member_id: partitions(owned) for member_id, owned in (target or {}).items()}
