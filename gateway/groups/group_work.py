"""Carries out the effects of one group that take time: it reads and writes the log, asks the
cluster, and has targets and matches computed."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog
import trio

from coordinator.engine import GroupEngine
from coordinator.group.topic_names import topics_of_group, topics_of_request
from coordinator.interface.events import AssignmentReceived, RegexesResolved
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Computation
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.events.event import DecisionEvents
from gateway.events.group_events import TopicsDeleted
from gateway.groups.clock import Clock
from gateway.groups.cluster_group_reader import ClusterGroupReader
from gateway.groups.compute_thread import ComputeThread
from gateway.groups.group_coordinator import (
    AskCoordinatorNode,
    CoordinatorOf,
    GroupCoordinator,
)
from gateway.groups.group_limits import GroupLimits
from gateway.groups.group_reporter import GroupReporter, forget_events
from gateway.groups.pauses import Pauses
from gateway.groups.regex_resolver import RegexResolver
from gateway.groups.relayed_calls import RelayedCalls
from gateway.groups.topics_image import TopicsImage
from gateway.hosting.calls import Call, LearnTopics, LocateCoordinator
from gateway.hosting.effects import (
    Ask,
    AskCoordinator,
    Assign,
    Compute,
    Describe,
    Forget,
    Hold,
    Load,
    LoadedGroup,
    Look,
    Resolve,
    Work,
    Write,
)
from gateway.hosting.group import HostedGroup
from gateway.hosting.inputs import Damage, Done, Failed, Input, TopicsMoved
from gateway.journal.journal import Journal, last_events
from gateway.observers.counts import GroupCounts
from gateway.observers.offset_reporter import OffsetReporter
from gateway.quotas.quota_key import QuotaKey
from gateway.state_log.last_events import LogRecord
from gateway.state_log.log import StateLog, StateLogError, StateLogRefused, StateLogUnsure

log = structlog.get_logger()

Feed = Callable[[Input], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the drivers of all groups use."""

    clock: Clock
    cluster: Cluster
    cluster_reader: ClusterGroupReader
    state_log: StateLog
    journal: Journal
    offsets: OffsetReporter
    resolver: RegexResolver
    compute_thread: ComputeThread
    assign: Callable[[Computation], Awaitable[AssignmentReceived]]
    """What a plug-in answers."""
    coordinator_of: CoordinatorOf
    ask_coordinator: AskCoordinatorNode
    nursery: trio.Nursery
    pauses: Pauses
    limits: GroupLimits
    counts: GroupCounts = field(default_factory=GroupCounts)


class GroupWork:
    """What a group's driver has carried out in tasks. It never calls the driver, except by the
    `feed` of one effect."""

    def __init__(
        self,
        group: HostedGroup,
        services: Services,
        reporter: GroupReporter,
        relayed: RelayedCalls,
        owner: QuotaKey | None,
    ) -> None:
        """`owner`: whose request has named the group first."""
        self.topics = TopicsImage(services.cluster)
        self._group = group
        self._services = services
        self._reporter = reporter
        self._relayed = relayed
        self._owner = owner
        self._coordinator = GroupCoordinator(
            group.group_id, services.coordinator_of, services.ask_coordinator, services.state_log
        )
        self._learning = trio.Lock()
        self._resolving = trio.CancelScope()
        self._assigning = trio.CancelScope()

    def cancel_computations(self) -> None:
        """Cancel what is being resolved or computed: it belongs to a state that is given up."""
        self._resolving.cancel()
        self._assigning.cancel()

    async def carry_out(self, effect: Work, feed: Feed) -> Input | None:
        """Carry out an effect. Returns what came of it, unless `feed` has told the group."""
        reader, group_id = self._services.cluster_reader, self._group.group_id
        match effect:
            case Look():
                return Done(effect, await reader.look_up(group_id))
            case Describe():
                return Done(effect, await reader.describe(group_id))
            case Load():
                return await self._load(effect)
            case Write():
                return await self._write(effect)
            case Forget():
                return await self._forget(effect)
            case Compute():
                return await self._compute(effect)
            case Resolve():
                await self._resolve(effect, feed)
                return None
            case Assign():
                await self._assign(effect, feed)
                return None
            case AskCoordinator():
                return await self._coordinator.ask_for_anchor(effect)
            case Ask():
                return await self._coordinator.ask_for_move(effect)
            case Hold():
                await self._relayed.until_none()
                return Done(effect)

    async def _load(self, effect: Load) -> Input:
        """Read the group from its log. What is being resolved or computed belongs to the old
        state."""
        self.cancel_computations()
        group_id, services = self._group.group_id, self._services
        try:
            engine = GroupEngine(group_id, self._group.rules.config_of(group_id))
            records = await services.state_log.read(group_id)
            engine.load(records, now_ms=services.clock.now_ms())
            services.journal.take_up(group_id)
            topics = await self.learn(topics_of_group(engine.state))
            return Done(effect, LoadedGroup(engine, topics))
        except (StateLogError, UpstreamError) as error:
            return Failed(effect, str(error))
        except Exception as error:  # the boundary: one group that cannot be loaded
            return Failed(effect, repr(error))

    async def _write(self, effect: Write) -> Input:
        """Write records and events; the events are told once the log has them."""
        group_id, services, batch = self._group.group_id, self._services, effect.batch
        decisions = [decision.reported for decision in batch.decisions]
        self._reporter.make_way(decisions)
        stamped = services.journal.stamp_batch(decisions, group_id)
        last = last_events(stamped)
        began_s = trio.current_time()
        has_failed = True
        try:
            records: Sequence[LogRecord] = (*batch.durable, *([] if last is None else [last]))
            await services.state_log.append(group_id, records)
            has_failed = False
            services.limits.log_health.on_write(group_id, None, services.clock.now_ms())
        except StateLogError as error:
            log.error("state_log_failed", group_id=group_id, reason=str(error))  # noqa: TRY400
            services.journal.drop_batch(group_id)
            match error:
                case StateLogUnsure():
                    damage = Damage.UNSURE
                case StateLogRefused():
                    damage = Damage.REFUSED
                case _:
                    damage = Damage.NONE
            services.limits.log_health.on_write(group_id, damage, services.clock.now_ms())
            return Failed(effect, damage)
        finally:
            services.counts.log_writes.record(trio.current_time() - began_s, failed=has_failed)
        try:
            for decision, envelopes in zip(batch.decisions, stamped, strict=True):
                services.journal.pass_on(envelopes, decision.reported.owner)
                self._reporter.follow(decision.reported)
        except Exception:  # the boundary: the log has the batch, so the group is loaded with it
            log.exception("group_failed", group_id=group_id)
            return Failed(effect, Damage.UNSURE)
        return Done(effect)

    async def _forget(self, effect: Forget) -> Input:
        """End the sequence of a deleted group, whose lines are all written. If the log fails,
        `Forgetting` does it later."""
        with contextlib.suppress(StateLogError):
            await forget_events(
                self._group.group_id, self._services.journal, self._services.state_log
            )
        return Done(effect)

    async def _compute(self, effect: Compute) -> Input:
        try:
            await self._services.compute_thread.run(effect.compute)
        except Exception as error:  # the boundary: the group decides what a bug leads to
            return Failed(effect, error)
        return Done(effect)

    async def _resolve(self, effect: Resolve, feed: Feed) -> None:
        """Match the group's regular expressions while the group keeps working."""
        regexes = effect.resolution.regexes
        group_id, resolver = self._group.group_id, self._services.resolver
        with trio.CancelScope() as self._resolving, resolver.under_way(group_id):
            try:
                event = await resolver.resolve(group_id, regexes, self._owner)
                feed(TopicsMoved(await self.learn(topics_of_request(event))))
            except UpstreamError as error:
                log.warning("regexes_unresolved", group_id=group_id, reason=str(error))
                event = RegexesResolved(topics=None)
            except Exception:  # the boundary: a bug in matching ends no group
                log.exception("regexes_unresolved", group_id=group_id)
                event = RegexesResolved(topics=None)
            feed(Done(effect, event))

    async def _assign(self, effect: Assign, feed: Feed) -> None:
        """Have a plug-in compute a target while the group keeps working."""
        with trio.CancelScope() as self._assigning:
            feed(Done(effect, await self._services.assign(effect.computation)))

    # -- topics and coordinators -------------------------------------------------------------------

    async def learn(self, names: frozenset[str], owner: QuotaKey | None = None) -> Topics:
        """The topics that the group refers to, these included. `owner`: whose request names them,
        if one does; otherwise they count towards the client that named the group first. Raises
        UpstreamError."""
        owner = owner or self._owner
        async with self._learning:  # two at a time would lose each other's names
            if self.topics.is_crowded:
                self.topics.keep_only(topics_of_group(self._group.engine.core.state))
            topics = await self.topics.get(names, owner)
        if deleted := self.topics.take_deleted():
            event = TopicsDeleted(topics=tuple(sorted(deleted)), topic_ids=deleted)
            decision = DecisionEvents((event,), self._services.clock.now_ms())
            self._reporter.report([decision])
        return topics

    async def learn_topics_of_group(self) -> Input | None:
        """Learn the topics of an adopted group: none of its members may name them for hours, and
        the end of a grant has no words without them."""
        try:
            names = topics_of_group(self._group.engine.core.state)
            return TopicsMoved(await self.learn(names))
        except UpstreamError:
            return None  # the next request that names them asks again

    async def learn_topics(self, pending_action: LearnTopics) -> Input:
        """Learn the topics of a call."""
        call = pending_action.call
        try:
            return Done(pending_action, await self.learn(call.topic_names, call.owner))
        except UpstreamError as error:
            return Failed(pending_action, str(error))

    async def locate_coordinator(self, pending_action: LocateCoordinator) -> Input:
        """Find out whether the client of a call is at the group's coordinator."""
        is_here = await locate(self._services, self._group.group_id, pending_action.call)
        if is_here is None:
            return Failed(pending_action, "no coordinator is known")
        return Done(pending_action, is_here)


async def locate(services: Services, group_id: str, call: Call) -> bool | None:
    """Whether the client's listener stands for the group's coordinator; None if that is unknown."""
    try:
        return call.node_id == await services.coordinator_of(group_id, call.owner)
    except UpstreamError as error:
        log.warning("coordinator_unknown", group_id=group_id, reason=str(error))
        return None
