"""Hosted groups without sockets: real groups, drivers and engines, a fake cluster and log.

The test decides the cluster's content, and when cluster or log fail. Everything else is the
gateway's own code, under Trio's mock clock.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, cast
from uuid import UUID, uuid4

import trio

from coordinator.group.topic_names import topics_of_request
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    JOIN_EPOCH,
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    OffsetCommitEnded,
    OffsetCommitReceived,
    OffsetFetchReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.records import DurableRecord
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    GroupView,
    HeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    OffsetReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Topics
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.cluster.topics import ClusterTopic
from gateway.data_path.brokers import ClientSoftware
from gateway.data_path.client_warnings import ClientWarnings
from gateway.data_path.config import Limits
from gateway.data_path.grants import Grants
from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.upstream import Upstream
from gateway.events.event import Envelope, GatewayEvent
from gateway.groups.clock import Clock
from gateway.groups.cluster_group_reader import ClusterGroupReader
from gateway.groups.compute_thread import ComputeThread
from gateway.groups.group_driver import GroupDriver
from gateway.groups.group_drivers import GroupRefused
from gateway.groups.group_limits import GroupLimits
from gateway.groups.group_work import Services
from gateway.groups.groups import Groups
from gateway.groups.pauses import Pauses
from gateway.groups.regex_resolver import RegexResolver
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.hosting.calls import LOST, Commits, PendingAction, Refused
from gateway.hosting.identity import Gateway
from gateway.hosting.inputs import Done, Input
from gateway.hosting.rules import HostingRules
from gateway.journal.journal import Journal, Sinks
from gateway.observers.offset_reporter import OffsetReporter
from gateway.plug_ins.runner import PlugIns
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from gateway.settings_sources import ENVIRONMENT_PREFIX
from gateway.state_log.last_events import LastEvents, LogRecord
from gateway.state_log.log import StateLog, StateLogError, StateLogRefused
from gateway.state_log.memory import MemoryLog
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader
from tests.support.engine_requests import (
    heartbeat_received,
    join_received,
    leave_received,
    native_received,
    sync_received,
)
from tests.support.group_script import (
    Owned,
    topic_id,
)
from tests.support.hosted_scene import commit_of_client

GROUP = "orders"
API_OF: Mapping[type[Request], GroupApi] = {
    JoinGroupReceived: GroupApi.JOIN,
    SyncGroupReceived: GroupApi.SYNC,
    HeartbeatReceived: GroupApi.HEARTBEAT,
    LeaveGroupReceived: GroupApi.LEAVE,
    ConsumerHeartbeatReceived: GroupApi.CONSUMER_HEARTBEAT,
    OffsetCommitReceived: GroupApi.COMMIT,
    OffsetFetchReceived: GroupApi.FETCH,
}
LONG_MS = 60_000
"""The rebalance timeout: longer than the pauses of these tests."""
QUIET_S = 2
"""Longer than an empty group stays in memory."""
R = TypeVar("R", bound=Reply)

Answer = Callable[[Any], Any]


class ScriptedCluster(Cluster):
    """A cluster with the topics, coordinators and answers that the test sets."""

    def __init__(self, **partition_counts: int) -> None:
        super().__init__(())
        self.partition_counts = dict(partition_counts or {"foo": 3})
        self.failure: UpstreamError | None = None
        """Every request to the cluster raises this."""
        self.hangs = False
        """Whether coordinators are unknown."""
        self.topic_questions: list[frozenset[str]] = []
        """The names in each request to the cluster."""
        self.coordinators: dict[str, int] = {}
        self.coordinator_questions: list[str] = []
        self.spoken: dict[int, tuple[int, int]] = {}
        self.answers: dict[type[Struct], Answer] = {}
        self.asked: list[tuple[int, Struct]] = []
        """The requests to each broker."""
        self._asked_about: set[str] = set()

    def change(self) -> None:
        """Announce that brokers or topics have changed."""
        self.changed.set()
        self.changed = trio.Event()

    async def topics_for(
        self, names: Iterable[str], owner: QuotaKey | None = None
    ) -> Mapping[str, ClusterTopic]:
        names = frozenset(names)
        if not self._asked_about.issuperset(names):
            self.topic_questions.append(names - self._asked_about)
            await trio.lowlevel.checkpoint()
            self._check()
            self._asked_about |= names
        return {
            name: ClusterTopic(topic_id=topic_id(name), partition_count=count, racks=())
            for name, count in self.partition_counts.items()
            if name in names
        }

    async def ask_names(self) -> Mapping[UUID, str]:
        await trio.lowlevel.checkpoint()
        self._check()
        return {topic_id(name): name for name in self.partition_counts}

    async def coordinators_of(
        self, group_ids: Iterable[str], *, doubtful: int | None = None
    ) -> Mapping[str, int | UpstreamError]:
        group_ids = tuple(group_ids)
        self.coordinator_questions.extend(group_ids)
        if self.hangs:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return {
            group_id: self.failure or self.coordinators.get(group_id, 1) for group_id in group_ids
        }

    async def versions_of(self, node_id: int) -> Mapping[int, tuple[int, int]]:
        self._check()
        return self.spoken

    async def ask(self, node_id: int, message: Struct, version: int | None = None) -> Any:
        await trio.lowlevel.checkpoint()
        self._check()
        self.asked.append((node_id, message))
        return self.answers[type(message)](message)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure


class ScriptedLog(MemoryLog):
    """A log that can fail or block its writer."""

    def __init__(self) -> None:
        super().__init__()
        self.is_failing = False
        self.refuses: Callable[[LogRecord], bool] = lambda _record: False
        """Whether a record is too large."""
        self.is_unreadable = False
        self.gate: trio.Event | None = None
        """If set, writes wait for this event."""
        self.writing = trio.Event()
        """Set when a write waits at the gate."""
        self.batches: list[Sequence[DurableRecord]] = []

    async def group_ids(self) -> Collection[str]:
        if self.is_unreadable:
            raise StateLogError("the log cannot be read")
        return await super().group_ids()

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        if self.is_unreadable:
            raise StateLogError("the log cannot be read")
        return await super().read(group_id)

    async def append(self, group_id: str, batch: Sequence[LogRecord]) -> None:
        if self.gate is not None:
            self.writing.set()
            await self.gate.wait()
        if self.is_failing:
            raise StateLogError("the disk is full")
        if any(map(self.refuses, batch)):
            raise StateLogRefused("a record is too large")
        await super().append(group_id, batch)
        self.batches.append(tuple(record for record in batch if not isinstance(record, LastEvents)))


class _SpeaksNothing:
    """An upstream that supports nothing."""

    versions: Mapping[int, tuple[int, int]] = {}
    introduction: ClientSoftware | None = None
    is_idle = True


def lone_request(message: Struct, version: int) -> GroupRequest:
    """A client's request that the gateway answers without the cluster."""
    api_key = message.SCHEMA.api_key
    assert api_key is not None
    return GroupRequest(
        header=RequestHeader(
            api_key=api_key, api_version=version, correlation_id=1, client_id="client"
        ),
        message=message,
        client_host="127.0.0.1",
        owner=QuotaKey("127.0.0.1"),
        upstream=cast(Upstream, _SpeaksNothing()),
        node_id=1,
        grants=Grants(Limits()),
        at_s=0.0,
    )


async def every_topic(_group_id: str, names: Collection[str]) -> frozenset[str]:
    """Members may describe all topics."""
    return frozenset(names)


def make_groups(
    nursery: trio.Nursery,
    config: GroupConfig,
    limits: GroupLimits,
    *,
    cluster: Cluster,
    log: StateLog,
    journal: Journal,
) -> Groups:
    """The groups of a gateway in front of this cluster, without anchors."""
    clock = Clock()
    rules = HostingRules(
        config=config,
        gateway=Gateway(log_id=log.id, run_id=1),
        longest_session_ms=config.longest_session_ms,
        host_patterns=("*",),
        can_anchor=False,
        linger_ms=60_000,
    )
    compute_thread = ComputeThread()
    services = Services(
        clock=clock,
        cluster=cluster,
        cluster_reader=ClusterGroupReader(cluster),
        state_log=log,
        journal=journal,
        offsets=OffsetReporter(journal.emit, clock.now_ms),
        resolver=RegexResolver(cluster, every_topic),
        compute_thread=compute_thread,
        assign=PlugIns(compute_thread, ENVIRONMENT_PREFIX).compute,
        coordinator_of=lambda group_id, _owner: cluster.coordinator_of(group_id),
        ask_coordinator=cluster.ask,
        nursery=nursery,
        pauses=Pauses(clock.now_ms(), grace_ms_max=config.reconnect_timeout_ms),
        limits=limits,
    )
    return Groups(rules, services)


class HostedGroups:
    """All groups of a gateway, and requests of clients to one of them."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        config: GroupConfig,
        max_groups: int,
        max_groups_per_address: int | None,
        log: ScriptedLog,
    ) -> None:
        self.nursery = nursery
        self.config = config
        self.cluster = ScriptedCluster()
        nursery.start_soon(self.cluster.names.run)
        self.log = log
        self.events: list[GatewayEvent] = []
        self._ends: dict[int, trio.Event] = {}
        self._lost: set[int] = set()
        self._heard = trio.Event()
        self.journal = journal = Journal(
            self.log.id,
            Sinks(listener=self._hear),
            now_ms=Clock().now_ms,
            recall=log.last_events,
        )
        limits = GroupLimits(
            max_groups,
            ShareRule(per_address=max_groups_per_address or max_groups),
            lambda owner, reason, limit: ClientWarnings().warn(
                "groups_refused", owner.name, reason=reason, limit=limit
            ),
        )
        self.table = make_groups(
            nursery, config, limits, cluster=self.cluster, log=log, journal=journal
        )
        self.cluster_reader, self.offsets = (
            self.table._services.cluster_reader,
            self.table._services.offsets,
        )
        nursery.start_soon(self.table.watch_pauses)

    def _hear(self, envelope: Envelope) -> None:
        self.events.append(envelope.fields)
        self._heard.set()
        self._heard = trio.Event()

    # -- requests --------------------------------------------------------------------------------

    async def ask(
        self,
        make: Callable[[int, Topics], Request],
        *,
        group: str = GROUP,
        names: Iterable[str] = (),
        owner: QuotaKey | None = None,
    ) -> Any:
        """Send a request and return its answer. Raises GroupRefused if no place is left."""
        event = make(0, Topics())
        names = {*names, *topics_of_request(event)}
        try:
            return await self.table.drivers.ask(group, make, names, owner=owner)
        except GroupRefused as error:
            if error.cause is RefusalReason.TOO_MANY_GROUPS:
                raise
            code = code_for(error.cause, API_OF.get(type(event), GroupApi.ADMIN))
            return event.refuse(GroupError(code, error.reason))

    async def _ask(self, kind: type[R], make: Callable[..., Request], group: str, **how: Any) -> R:
        reply = await self.ask(lambda token, _: make(token=token), group=group, **how)
        assert isinstance(reply, kind)
        return reply

    async def join(
        self, member_id: str = "", *, group: str = GROUP, **fields: Any
    ) -> JoinGroupReply:
        """Send a JoinGroup, which may be parked for long."""
        how = {"rebalance_timeout_ms": LONG_MS, "fresh_id": uuid4(), **fields}
        make = partial(join_received, member_id, **how)
        return await self._ask(JoinGroupReply, make, group)

    async def sync(
        self, member_id: str, generation: int, *, group: str = GROUP, **fields: Any
    ) -> SyncGroupReply:
        """Send a SyncGroup, with assignments if the member leads."""
        make = partial(sync_received, member_id, generation, **fields)
        return await self._ask(SyncGroupReply, make, group)

    async def beat(self, member_id: str, generation: int, *, group: str = GROUP) -> HeartbeatReply:
        make = partial(heartbeat_received, member_id, generation)
        return await self._ask(HeartbeatReply, make, group)

    async def leave(self, member_id: str) -> LeaveGroupReply:
        return await self._ask(LeaveGroupReply, partial(leave_received, member_id), GROUP)

    async def native(
        self,
        member_id: str,
        epoch: int = JOIN_EPOCH,
        *,
        group: str = GROUP,
        begun_by: str | None = None,
        **fields: Any,
    ) -> ConsumerHeartbeatReply:
        """Send a ConsumerGroupHeartbeat. With epoch 0 it has all fields that joining needs."""
        timeout_ms = LONG_MS if epoch == JOIN_EPOCH else -1
        how = {"rebalance_timeout_ms": timeout_ms, "fresh_id": uuid4(), **fields}
        make = partial(native_received, member_id, epoch, **how)
        owner = None if begun_by is None else QuotaKey(begun_by)
        return await self._ask(ConsumerHeartbeatReply, make, group, owner=owner)

    async def commit(
        self, member_id: str, epoch: int, of: Owned, *, group: str = GROUP
    ) -> tuple[int, OffsetReply]:
        """Check an OffsetCommit. Returns the verdict and the commit's token."""
        commit = commit_of_client(member_id, epoch, of)
        call = Commits(api=GroupApi.COMMIT, is_placed=True, commits={commit.token: commit})
        decision, ended = trio.Event(), trio.Event()
        self._ends[commit.token] = ended

        async def do(pending_action: PendingAction) -> Input:
            decision.set()
            await ended.wait()
            is_lost = commit.token in self._lost
            return Done(pending_action, {commit.token: LOST if is_lost else frozenset()})

        scope = trio.CancelScope()

        async def store() -> None:
            with scope:
                await self.table.drivers.driver(group).ask(call, do)
            decision.set()

        self.nursery.start_soon(store)
        try:
            await decision.wait()
        except trio.Cancelled:
            scope.cancel()
            raise
        if isinstance(call.answer, Refused):
            code = code_for(call.answer.cause, GroupApi.COMMIT)
            return commit.token, OffsetReply(error=code, reason=call.answer.reason)
        if commit.outcome.refused is not None:
            code = code_for(commit.outcome.refused.cause, GroupApi.COMMIT)
            return commit.token, OffsetReply(error=code)
        return commit.token, cast(OffsetReply, commit.outcome.decision)

    def end_commit(self, event: OffsetCommitEnded) -> None:
        """The cluster answers a commit, or its answer is lost."""
        if event.answer_lost:
            self._lost.add(event.commit)
        self._ends[event.commit].set()

    async def fetch(self, of: Owned) -> OffsetReply:
        """Check an OffsetFetch without a member."""
        reply = await self.ask(
            lambda token, topics: OffsetFetchReceived(
                token=token, member_id=None, epoch=-1, partitions=topics.partitions(of.items())
            ),
            names=of,
        )
        assert isinstance(reply, OffsetReply)
        return reply

    # -- situations ------------------------------------------------------------------------------

    async def lone_classic_member(self, *, group: str = GROUP, **fields: Any) -> JoinGroupReply:
        """Form a Stable classic group whose one member has all partitions. Returns its JoinGroup
        answer."""
        member_id = (await self.join(group=group, **fields)).member_id
        joined = await self.join(member_id, group=group, **fields)
        everything = {"foo": range(self.cluster.partition_counts["foo"])}
        await self.sync(
            member_id, joined.generation, group=group, assignments={member_id: everything}
        )
        return joined

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(self.table.drivers.by_id)

    def driver(self, group: str = GROUP) -> GroupDriver:
        return self.table.drivers.driver(group)

    def view(self, group: str = GROUP) -> GroupView | None:
        """The group as admin tools see it, or None if it is not in memory."""
        work = self.driver(group).group.engine
        return work.core.describe(work.topics) if work.is_loaded else None

    async def wait_for_event(self, name: str) -> Mapping[str, Any]:
        """The fields of the latest event of this name. Waits for the first in real time, because
        the mock clock does not know about threads."""
        with trio.fail_after(5):
            while not self.events_named(name):
                await self._heard.wait()
        return self.events_named(name)[-1]

    def events_named(self, name: str) -> list[Mapping[str, Any]]:
        """The fields of all events of this name."""
        return [event.fields for event in self.events if event.name == name]


@asynccontextmanager
async def hosted_groups(
    *,
    config: GroupConfig | None = None,
    max_groups: int = 8,
    max_groups_per_address: int | None = None,
    log: ScriptedLog | None = None,
) -> AsyncIterator[HostedGroups]:
    """Groups for the length of the block, with this log or a new one."""
    async with trio.open_nursery() as nursery:
        yield HostedGroups(
            nursery,
            config=config or GroupConfig(),
            max_groups=max_groups,
            max_groups_per_address=max_groups_per_address,
            log=log or ScriptedLog(),
        )
        nursery.cancel_scope.cancel()
