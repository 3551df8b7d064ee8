"""What is shown of groups: to admin tools, to operators, and in lists.

A group in memory shows its present state. Any other shows what the log has of it, which is
remembered until the group gets a driver, so that long lists cost little.
"""

from collections.abc import Collection, Hashable, Mapping, Set

import trio

from coordinator.engine import GroupEngine
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.load import (
    has_group,
    overrides_in,
)
from coordinator.group.state import GroupState
from coordinator.handlers.group_configs import KEYS, in_force
from coordinator.handlers.group_configs import describe as describe_configs
from coordinator.interface.replies import ConfigView, GroupView
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Topics
from gateway.groups.cluster_view import ClusterView
from gateway.groups.group_drivers import GroupDrivers, IdleGroup
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.groups.group_work import Services
from gateway.hosting.group_routing import HERE, GroupRouting, RoutingDecision
from gateway.hosting.rules import HostingRules
from gateway.hosting.states import AdoptionStage, AnchorPhase, Mode, ReleaseStage
from gateway.state_log.log import StateLogError


class GroupViews:
    """Shows groups without changing them."""

    def __init__(
        self,
        rules: HostingRules,
        services: Services,
        drivers: GroupDrivers,
        obstacles: Mapping[str, str],
    ) -> None:
        """`obstacles`: why groups could not be released that a setting leaves to the cluster."""
        self._rules = rules
        self._config = rules.config
        self._drivers = drivers
        self._state_log = services.state_log
        self._log_health = services.limits.log_health
        self._journal = services.journal
        self._obstacles = obstacles
        self._clock = services.clock
        self.cluster = ClusterView(
            services.cluster_reader, rules.watched, services.clock, self.is_forwarded
        )

    def snapshot(self, group_id: str) -> GroupSnapshot:
        """What is known of a group, known or not, without asking cluster or log."""
        driver = self._drivers.by_id.get(group_id)
        routing = self._drivers.get_routing(group_id)
        decision = self._find_shown_decision(group_id, routing)
        is_loaded = driver is not None and driver.group.engine.is_loaded
        move = None if driver is None else driver.group.move
        stage = None if move is None else move.stage
        state = driver.group.engine.core.state if driver is not None and is_loaded else None
        is_forwarded = self._is_forwarded(group_id, decision)
        in_cluster = self.cluster.latest_of(group_id) if is_forwarded else None
        return GroupSnapshot(
            group_id=group_id,
            decision=decision,
            state=state,
            policy=self._policy(group_id, state),
            topics=driver.group.engine.topics if driver is not None else Topics(),
            anchor=AnchorPhase.ABSENT if driver is None else driver.group.anchor.phase,
            anchor_reason="" if driver is None else driver.group.why_not_held,
            is_adopted=self._drivers.is_adopted(group_id),
            is_adopting=self._drivers.is_moving(group_id) if move is None else move.is_adopting,
            adoption=stage if isinstance(stage, AdoptionStage) else None,
            release=stage if isinstance(stage, ReleaseStage) else None,
            log_failed_ms=self._log_health.failed_ms,
            release_obstacle=self._obstacles.get(group_id, ""),
            watched=self._rules.watched.group(group_id),
            in_cluster=in_cluster,
            is_configured=routing.is_configured,
            native_session_ms=self._native_session_ms(group_id, state),
            now_ms=self._clock.now_ms(),
        )

    def is_forwarded(self, group_id: str) -> bool:
        """Whether the cluster answers for the group, as far as known, and no move is under way."""
        decision = self._find_shown_decision(group_id, self._drivers.get_routing(group_id))
        return self._is_forwarded(group_id, decision)

    def _is_forwarded(self, group_id: str, decision: RoutingDecision) -> bool:
        return decision.mode is Mode.FORWARDED and not self._drivers.is_moving(group_id)

    def _find_shown_decision(self, group_id: str, routing: GroupRouting) -> RoutingDecision:
        if self._drivers.is_live(group_id):
            return HERE
        if routing.is_left and routing.decision.mode is Mode.UNKNOWN:
            return RoutingDecision(Mode.FORWARDED, routing.reason_left)
        return routing.decision

    def _policy(self, group_id: str, state: GroupState | None) -> RollMode:
        if state is not None:
            overrides = state.config_overrides
        else:
            overrides = self._state_log.config_overrides(group_id) or {}
        return self._rules.config_of(group_id).roll_policy.overridden(overrides).mode

    def _native_session_ms(self, group_id: str, state: GroupState | None) -> int:
        overrides = {} if state is None else state.config_overrides
        return in_force(self._rules.config_of(group_id), overrides).consumer_session_timeout_ms

    async def view(self, group_id: str) -> tuple[GroupView, Topics] | None:
        """A hosted group as admin tools see it, with its topics; None if it does not exist.

        Raises StateLogError.
        """
        if not await self._drivers.knows(group_id):
            return None
        if (driver := self._drivers.find_loaded(group_id)) is not None:
            work = driver.group.engine
            return work.core.describe(work.topics), work.topics
        if (
            group_id in self._drivers.by_id
            and self._drivers.by_id[group_id].group.engine.is_loading
        ):
            raise StateLogError("the group is still being loaded")
        return (await self._read(group_id)).describe(Topics()), Topics()

    async def summary(self, group_id: str) -> GroupView | None:
        """A hosted group without its members, None if it is unknown. Raises StateLogError."""
        if (driver := self._drivers.find_loaded(group_id)) is not None:
            core = driver.group.engine.core
            return None if core.state.group is None else core.summarize()
        idle = await self._idle_group(group_id)
        return None if idle is None else idle.view

    async def mark(self, group_id: str) -> Hashable:
        """What equals an earlier mark of the group as long as it is shown in lists as it was then.
        Costs less than to show it. Raises StateLogError."""
        driver = self._drivers.by_id.get(group_id)
        routing = self._drivers.routings.get(group_id) if driver is None else driver.group.routing
        decision = None if routing is None else self._find_shown_decision(group_id, routing)
        shown: object = None
        if driver is not None:
            shown = driver.revision
        elif decision is None or decision.mode is not Mode.FORWARDED:
            shown = await self._idle_group(group_id)
        return (
            shown,
            decision,
            self._drivers.is_adopted(group_id),
            self._drivers.is_moving(group_id),
            self._log_health.failed_ms,
        )

    async def _idle_group(self, group_id: str) -> "IdleGroup | None":
        """A group as the log has it, None if it is unknown. Raises StateLogError."""
        idle = self._drivers.idle.get(group_id)
        if idle is None:
            records = await self._state_log.read(group_id)
            if not has_group(records):
                return None
            engine = self._drivers.engine_of(group_id, records)
            policy = self._policy(group_id, engine.state)
            idle = IdleGroup(view=engine.summarize(), policy=policy)
            if group_id not in self._drivers.by_id:
                self._drivers.idle[group_id] = idle
        return idle

    async def _read(self, group_id: str) -> GroupEngine:
        return self._drivers.engine_of(group_id, await self._state_log.read(group_id))

    def state_of(self, group_id: str) -> str:
        """The state of a group in memory, in Kafka's words; "Empty" for any other."""
        driver = self._drivers.by_id.get(group_id)
        match None if driver is None else driver.group.engine.core.state.group:
            case ClassicGroup() as group:
                return group.phase
            case ConsumerGroup() as group:
                return group.state
            case None:
                return "Empty"

    def subscribed_topics(self, group_id: str) -> Collection[str]:
        """The topics that members of a group in memory subscribe to, as far as known."""
        driver = self._drivers.by_id.get(group_id)
        return () if driver is None else driver.group.engine.core.subscribed_topics()

    def topic_names(self) -> Set[str]:
        """The topics that hosted groups have recently referred to."""
        return frozenset().union(
            *(driver.work.topics.names for driver in self._drivers.by_id.values())
        )

    async def configs(self, group_id: str) -> tuple[ConfigView, ...]:
        """The group's configs; the group need not exist. Raises StateLogError."""
        if (driver := self._drivers.find_loaded(group_id)) is not None:
            return driver.group.engine.core.describe_configs()
        return describe_configs(overrides_in(await self._state_log.read(group_id)), self._config)

    def ids_here(self) -> Collection[str]:
        """The groups in memory, and the forwarded ones."""
        relayed = (
            group_id for group_id, routing in self._drivers.routings.items() if routing.is_forwarded
        )
        return {*self._drivers.by_id, *relayed}

    async def all_ids(self) -> Collection[str]:
        """All groups that the gateway knows: hosted and forwarded ones. Raises StateLogError."""
        return {*await self.group_ids(), *self.ids_here()}

    async def group_ids(self) -> tuple[str, ...]:
        """All readable groups in memory or in the log. Raises StateLogError."""
        unreadable = await self._state_log.unreadable_groups()
        known = dict.fromkeys((*self._drivers.by_id, *await self._state_log.group_ids()))
        return tuple(group_id for group_id in known if group_id not in unreadable)

    async def idle_group_ids(self) -> tuple[str, ...]:
        """The groups in the log that are not in memory. Raises StateLogError."""
        group_ids = await self._state_log.group_ids()
        return tuple(group_id for group_id in group_ids if group_id not in self._drivers.by_id)

    async def configs_alone(self) -> Set[str]:
        """The groups that do not exist but have configs. Raises StateLogError."""
        return await self._state_log.configs_alone()

    async def groups_with_configs(self) -> tuple[str, ...]:
        """The groups that override some config. Raises StateLogError."""
        group_ids = []
        for group_id in await self.group_ids():
            await trio.lowlevel.checkpoint()  # the log may have thousands of groups
            if overrides_in(await self._state_log.read(group_id)).keys() & KEYS.keys():
                group_ids.append(group_id)
        return tuple(group_ids)

    def quiet_ms(self, group_id: str) -> int:
        """How long ago the group or its configs changed last, also in an earlier process."""
        return self._journal.quiet_ms(group_id)
