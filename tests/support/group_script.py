"""Drives one group engine as the gateway does, so that scenarios read like the protocol.

It applies and checks every step: `handle` changed nothing, the invariants hold, and every request
is answered or parked. A failing expectation prints the `conversation`.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from uuid import uuid5

from coordinator.assignors import spec_of
from coordinator.assignors.uniform import assign_uniformly
from coordinator.consumer.topic_regex import match_topics
from coordinator.engine import GroupEngine, Step, step_of
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    AssignmentReceived,
    ConfigChange,
    ConfigOperation,
    ConfigsReceived,
    ConsumerHeartbeatReceived,
    DeleteGroupReceived,
    Event,
    Happening,
    HeartbeatReceived,
    InstallAssignmentReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitEnded,
    OffsetCommitReceived,
    OffsetDeleteReceived,
    OffsetFetchReceived,
    PrepareAssignmentReceived,
    RegexesResolved,
    SyncGroupReceived,
    TimePassed,
)
from coordinator.interface.records import (
    Assignment,
    AssignmentMetadata,
    ClassicGroupMember,
    ClientAssignor,
    DurableRecord,
    Protocols,
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
    OffsetDeleteVerdict,
    OffsetVerdict,
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
from tests.support.group_records import GivenMember, classic_group, consumer_group
from tests.support.group_values import (
    NAMESPACE,
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
        """Let time pass, deadline by deadline."""
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
        return "\n".join(f"{prefix}{said}" for prefix, said in self.conversation)

    # -- classic requests ------------------------------------------------------------------------

    def send_join(
        self,
        member_id: str = "",
        *,
        topics: Iterable[str] = ("foo",),
        owned: Owned | None = None,
        generation: int = -1,
        instance_id: str | None = None,
        protocol: str = "range",
        protocols: Protocols | None = None,
        metadata: bytes | None = None,
        protocol_type: str = "consumer",
        version: int = 9,
        embedded_version: int = 1,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 10_000,
        waited_ms: int = 0,
        client_id: str = "client",
    ) -> int:
        """Send a JoinGroup and return its token, because it may be parked."""
        token = next(self._tokens)
        if metadata is None:
            metadata = subscription(
                topics, owned=owned, generation=generation, version=embedded_version
            )
        self.feed(
            JoinGroupReceived(
                token=token,
                version=version,
                member_id=member_id,
                instance_id=instance_id,
                client_id=client_id,
                client_host="/127.0.0.1",
                protocol_type=protocol_type,
                protocols=((protocol, metadata),) if protocols is None else protocols,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=rebalance_timeout_ms,
                fresh_id=uuid5(NAMESPACE, str(token)),
                waited_ms=waited_ms,
            )
        )
        return token

    def join(self, member_id: str = "", **how: Any) -> JoinGroupReply:
        """Send a JoinGroup that is answered at once."""
        return self.answer(self.send_join(member_id, **how), JoinGroupReply)

    def take_id(self, **how: Any) -> str:
        """Send the first JoinGroup of a dynamic member and return the id that the group hands
        out."""
        return self.join(**how).member_id

    def send_sync(
        self,
        member_id: str,
        generation: int,
        *,
        instance_id: str | None = None,
        assignments: Mapping[str, Owned] | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        version: int = 5,
    ) -> int:
        """Send a SyncGroup and return its token, because it may be parked."""
        token = next(self._tokens)
        self.feed(
            SyncGroupReceived(
                token=token,
                version=version,
                member_id=member_id,
                instance_id=instance_id,
                generation=generation,
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignments=tuple(
                    (id_, embedded_assignment(owned)) for id_, owned in (assignments or {}).items()
                ),
            )
        )
        return token

    def sync(self, member_id: str, generation: int, **how: Any) -> SyncGroupReply:
        """Send a SyncGroup that is answered at once."""
        return self.answer(self.send_sync(member_id, generation, **how), SyncGroupReply)

    def synced(self, member_id: str, generation: int, **how: Any) -> dict[str, tuple[int, ...]]:
        """Send a SyncGroup and return the assignment."""
        reply = self.sync(member_id, generation, **how)
        assert reply.error == 0, self.transcript()
        return read_assignment(reply.assignment)

    def beat(
        self, member_id: str, generation: int, *, instance_id: str | None = None
    ) -> HeartbeatReply:
        """Send a classic Heartbeat."""
        token = next(self._tokens)
        self.feed(
            HeartbeatReceived(
                token=token, member_id=member_id, instance_id=instance_id, generation=generation
            )
        )
        return self.answer(token, HeartbeatReply)

    def leave(
        self, *members: str | tuple[str, str | None], reason: str | None = None
    ) -> LeaveGroupReply:
        """Send a LeaveGroup. Entries are member ids or (member id, instance id)."""
        token = next(self._tokens)
        leavers = tuple(
            Leaver(member_id=m, reason=reason)
            if isinstance(m, str)
            else Leaver(member_id=m[0], instance_id=m[1], reason=reason)
            for m in members
        )
        self.feed(LeaveGroupReceived(token=token, members=leavers))
        return self.answer(token, LeaveGroupReply)

    # -- new-protocol requests -------------------------------------------------------------------

    def native(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        topics: Iterable[str] | None = None,
        regex: str | None = None,
        owned: Owned | None = None,
        instance_id: str | None = None,
        rack_id: str | None = None,
        assignor: str | None = None,
        client_assignors: Iterable[ClientAssignor] | None = None,
        version: int = 1,
        rebalance_timeout_ms: int = -1,
        disconnected: Iterable[str] = (),
        connection: int = 0,
        follows_answers: bool = True,
        calls_within_ms: int = 0,
    ) -> ConsumerHeartbeatReply:
        """Send a ConsumerGroupHeartbeat. With epoch 0 it has all fields that joining needs."""
        token = next(self._tokens)
        if epoch == 0:
            topics = ("foo",) if topics is None and regex is None else topics
            owned = {} if owned is None else owned
            rebalance_timeout_ms = 10_000 if rebalance_timeout_ms == -1 else rebalance_timeout_ms
        self.feed(
            ConsumerHeartbeatReceived(
                token=token,
                version=version,
                member_id=member_id,
                member_epoch=epoch,
                client_id="client",
                client_host="/127.0.0.1",
                instance_id=instance_id,
                rack_id=rack_id,
                rebalance_timeout_ms=rebalance_timeout_ms,
                topic_names=None if topics is None else tuple(topics),
                topic_regex=regex,
                server_assignor=assignor,
                client_assignors=None if client_assignors is None else tuple(client_assignors),
                owned=None if owned is None else partitions(owned),
                fresh_id=uuid5(NAMESPACE, str(token)),
                disconnected=frozenset(disconnected),
                connection=connection,
                follows_answers=follows_answers,
                calls_within_ms=calls_within_ms,
            )
        )
        return self.answer(token, ConsumerHeartbeatReply)

    def prepare(self, member_id: str, epoch: int) -> PrepareAssignmentReply:
        """Send a ConsumerGroupPrepareAssignment."""
        token = next(self._tokens)
        self.feed(PrepareAssignmentReceived(token=token, member_id=member_id, member_epoch=epoch))
        return self.answer(token, PrepareAssignmentReply)

    def install(
        self,
        member_id: str,
        epoch: int,
        group_epoch: int,
        target: Mapping[str, Owned] | None = None,
        *,
        metadata: Mapping[str, AssignmentMetadata] | None = None,
        error: int = 0,
        flaw: str = "",
    ) -> InstallAssignmentReply:
        """Send a ConsumerGroupInstallAssignment."""
        token = next(self._tokens)
        self.feed(
            InstallAssignmentReceived(
                token=token,
                member_id=member_id,
                member_epoch=epoch,
                group_epoch=group_epoch,
                error=error,
                target={id_: partitions(owned) for id_, owned in (target or {}).items()},
                metadata=metadata or {},
                flaw=flaw,
            )
        )
        return self.answer(token, InstallAssignmentReply)

    def resolve(self, *, fails: bool = False) -> Step:
        """Match the pending regular expressions against the present topics."""
        resolution = self.engine.state.resolution
        assert resolution is not None, "nothing is being resolved\n" + self.transcript()
        matched = None if fails else match_topics(resolution.regexes, self.topics.by_name)
        return self.feed(RegexesResolved(topics=matched, version=self.topics.names_version))

    def computed(
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
            changed = {id_: partitions(owned) for id_, owned in (target or {}).items()}
            return self.feed(AssignmentReceived(epoch=epoch, target=changed, failure=reason))
        assert computation is not None
        return self.feed(
            AssignmentReceived(epoch=epoch, target=assign_uniformly(spec_of(computation)))
        )

    # -- offsets ---------------------------------------------------------------------------------

    def commit(
        self,
        member_id: str,
        epoch: int,
        of: Owned,
        *,
        instance_id: str | None = None,
        version: int = 9,
        is_transactional: bool = False,
    ) -> tuple[int, OffsetVerdict]:
        """Send an OffsetCommit and return its token."""
        token = next(self._tokens)
        self.feed(
            OffsetCommitReceived(
                token=token,
                version=version,
                member_id=member_id,
                instance_id=instance_id,
                epoch=epoch,
                topic_names=frozenset(of),
                partitions=self.topics.partitions(of.items()),
                is_transactional=is_transactional,
            )
        )
        return token, self.answer(token, OffsetVerdict)

    def fetch(
        self, member_id: str | None = None, epoch: int = -1, of: Owned | None = None
    ) -> OffsetVerdict:
        """Send an OffsetFetch, for all partitions if none are named."""
        token = next(self._tokens)
        wanted = None if of is None else partitions(of)
        self.feed(
            OffsetFetchReceived(token=token, member_id=member_id, epoch=epoch, partitions=wanted)
        )
        return self.answer(token, OffsetVerdict)

    def delete_offsets(self, *topic_names: str) -> OffsetDeleteVerdict:
        """An OffsetDelete."""
        token = next(self._tokens)
        self.feed(OffsetDeleteReceived(token=token, topic_names=topic_names))
        return self.answer(token, OffsetDeleteVerdict)

    def delete_group(self) -> DeleteGroupReply:
        """Send a DeleteGroups for this group."""
        token = next(self._tokens)
        self.feed(DeleteGroupReceived(token=token))
        return self.answer(token, DeleteGroupReply)

    def alter_configs(
        self, *, validate_only: bool = False, **values: int | str | None
    ) -> ConfigsReply:
        """Send an IncrementalAlterConfigs: `session_timeout=50_000` sets that key, None deletes
        it."""
        token = next(self._tokens)
        changes = tuple(
            ConfigChange(
                name=f"consumer.{name.replace('_', '.')}.ms",
                operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET,
                value=None if value is None else str(value),
            )
            for name, value in values.items()
        )
        self.feed(ConfigsReceived(token=token, changes=changes, validate_only=validate_only))
        return self.answer(token, ConfigsReply)

    def set_policy(self, policy: RollMode, *, native_away: int = 0) -> ConfigsReply:
        """An operator's command."""
        token = next(self._tokens)
        self.feed(ConfigsReceived(token=token, policy=policy, native_away=native_away))
        return self.answer(token, ConfigsReply)

    def announce_roll(self, *, announces: bool) -> ConfigsReply:
        """An operator's command."""
        token = next(self._tokens)
        self.feed(ConfigsReceived(token=token, announces_roll=announces))
        return self.answer(token, ConfigsReply)

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

    def assigned(self, member_id: str) -> dict[str, tuple[int, ...]]:
        """The granted partitions of a consumer group's member, as names and numbers."""
        return self.named(self.current(member_id).assigned)

    def left_ms(self, kind: DeadlineKind, owner: str = "") -> int | None:
        """The remaining milliseconds of a timer, or None if it is not running."""
        at_ms = self.engine.state.deadlines.get(DeadlineKey(kind, owner))
        return None if at_ms is None else at_ms - self.now_ms

    def view(self) -> GroupView:
        return self.engine.describe(self.topics)

    def named(self, held: Iterable[Partition] | None) -> dict[str, tuple[int, ...]]:
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
