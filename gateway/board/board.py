"""Answers what operators ask: from the groups themselves, and from the events since the start."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from dataclasses import dataclass
from importlib.metadata import version

import trio

from coordinator.handlers.group_configs import in_force
from coordinator.handlers.views import summarize
from coordinator.interface.config import GroupConfig
from coordinator.interface.replies import GroupView
from gateway.board.advice import last_step, next_step
from gateway.board.changes import Changes
from gateway.board.cluster_reading import read_cluster_group
from gateway.board.group_readiness import assess
from gateway.board.group_stats import GROUP_CHARS_MAX, AllGroupStats, GroupStats
from gateway.board.lags import Lags
from gateway.board.reading import (
    group_line,
    group_page,
    line_elsewhere,
    members_by_phase,
    members_of_client,
    partition_lines,
    sums_shown,
)
from gateway.board.recent_events import RecentEvents
from gateway.board.steps import Steps
from gateway.board.views import (
    ClientMember,
    ClientPage,
    EventLine,
    Events,
    FleetLine,
    GatewayLine,
    GroupLine,
    GroupList,
    GroupPage,
    GroupReadiness,
    MemberLine,
    ProcessLine,
    Readiness,
)
from gateway.board.waits import explain_absence
from gateway.board.words import short
from gateway.cluster.cluster import Cluster
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.events.event import Envelope
from gateway.groups.clock import Clock
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.groups.groups import Groups as HostedGroups
from gateway.groups.groups_elsewhere import GroupElsewhere, GroupsElsewhere
from gateway.hosting.states import AnchorPhase, Mode

GROUPS_MAX = 500
"""Groups in one answer."""
CLIENT_MEMBERS_MAX = 500
"""Members of one client in one answer."""
EVENTS_MAX = 200
"""The most events in one answer."""
REGRESSION_SHARE = 0.3
MEMBERS_TOGETHER = 50
"""Members that are read before others have their turn."""
UNCHANGED_TOGETHER = 100
"""Groups that are compared before others have their turn."""


class NoSuchGroup(Exception):
    """The gateway does not know the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What does not change while the gateway runs."""

    gateway_id: str
    bootstrap: str
    connections_max: Callable[[], int]


class Board:
    """The view for all who watch: terminal, page, API and metrics. `take` sees every event."""

    def __init__(
        self,
        groups: HostedGroups,
        *,
        cluster: Cluster,
        clock: Clock,
        config_of: Callable[[str], GroupConfig],
        stop: trio.Event,
        limiter: ConnectionLimiter,
        regression_share: float = REGRESSION_SHARE,
        show_process: Callable[[], ProcessLine] | None = None,
        show_fleet: Callable[[], tuple[FleetLine, ...]] = tuple,
        elsewhere: GroupsElsewhere | None = None,
    ) -> None:
        """`regression_share`: of what a group consumes, the part that may stay behind after a
        consumer has changed its protocol. `show_process`: this process, if it is one of a fleet;
        `show_fleet`: the gateways on all machines; `elsewhere`: the groups of other machines, if
        this process lists them."""
        self._show_process, self._show_fleet = show_process, show_fleet
        self._elsewhere = elsewhere
        self.events = RecentEvents()
        self.group_stats = AllGroupStats(groups.views.state_of)
        self.lags = Lags(groups.views.subscribed_topics)
        self.steps = Steps(self.lags, self.group_stats, limiter.traffic, share=regression_share)
        self._groups = groups
        self._cluster = cluster
        self._clock = clock
        self._config_of = config_of
        self._stop = stop
        self._limiter = limiter
        self._started_ms = clock.now_ms()
        self._changes = Changes(self._started_ms)
        self.about = About(gateway_id="", bootstrap="", connections_max=lambda: 0)
        """Set once the gateway listens."""

    def take(self, envelope: Envelope) -> None:
        """See an event. Never raises."""
        self.events.take(envelope)
        self.group_stats.take(envelope)
        if len(envelope.group_id or "") <= GROUP_CHARS_MAX:
            self.lags.take(envelope)
            self.steps.take(envelope)

    # -- groups ----------------------------------------------------------------------------------

    async def groups(
        self, after: str = "", groups_max: int = GROUPS_MAX, since: int | None = None
    ) -> GroupList:
        """The groups whose ids come after this one. `since`: the revision of an earlier list, or 0;
        groups that are shown as then are left out. Raises StateLogError."""
        group_ids = set(await self._groups.views.all_ids())
        await self._groups.views.cluster.refresh(group_ids)
        others: Mapping[str, GroupElsewhere] = {}
        if self._elsewhere is not None:
            others = await self._elsewhere.list_groups()
        group_ids |= others.keys()
        changes = self._changes
        revision = 0
        if since is not None:
            revision = changes.revision if after else changes.begin(group_ids)
        is_complete = since is None or not changes.knows_since(since)
        lines: list[GroupLine] = []
        next_after = None
        for number, group_id in enumerate(sorted(name for name in group_ids if name > after)):
            if number % UNCHANGED_TOGETHER == 0:
                await trio.lowlevel.checkpoint()
            if since is not None:
                mark = others.get(group_id) or await self._mark(group_id)
                changed = changes.record(group_id, mark)
                if changed <= since and not is_complete:
                    continue
            if len(lines) == min(groups_max, GROUPS_MAX):
                next_after = lines[-1].group_id
                break
            await trio.lowlevel.checkpoint()
            other = others.get(group_id)
            lines.append(
                await self.line(group_id) if other is None else line_elsewhere(group_id, other)
            )
        return GroupList(
            groups=tuple(lines),
            next_after=next_after,
            revision=revision,
            is_complete=is_complete,
            gone=() if since is None or is_complete else tuple(changes.gone_since(since)),
        )

    async def _mark(self, group_id: str) -> Hashable:
        """What equals an earlier mark as long as the group's line is the same."""
        now_ms = self._clock.now_ms()
        stats = self.group_stats.of(group_id, now_ms)
        sums = None if stats is None else sums_shown(stats)
        views = self._groups.views
        snapshot = views.snapshot(group_id)
        timed = (
            read_cluster_group(snapshot)
            if views.is_forwarded(group_id)
            else explain_absence(snapshot)
        )
        return await views.mark(group_id), timed, sums, self.lags.show(group_id, now_ms)

    async def line(self, group_id: str) -> GroupLine:
        """One group, as in the list. Raises StateLogError."""
        snapshot = self._groups.views.snapshot(group_id)
        stats = self.group_stats.of(group_id, self._clock.now_ms())
        lag = self.lags.show(group_id, self._clock.now_ms())
        return group_line(snapshot, await self._summary(snapshot), stats, lag)

    async def group(self, group_id: str) -> GroupPage:
        """One group with its members. Raises NoSuchGroup, StateLogError."""
        await self._groups.views.cluster.refresh((group_id,))
        snapshot = self._groups.views.snapshot(group_id)
        summary = await self._summary(snapshot)
        stats = self.group_stats.of(group_id, self._clock.now_ms())
        is_known = summary is not None or snapshot.watched is not None
        is_known |= snapshot.is_adopting or bool(snapshot.anchor_reason)
        if not is_known and snapshot.decision.mode in (Mode.UNKNOWN, Mode.HOSTED):
            raise NoSuchGroup
        lag = self.lags.show(group_id, self._clock.now_ms())
        page, members = group_page(snapshot, summary, stats, lag)
        known, now_ms = self.lags.of(group_id), self._clock.now_ms()
        lines: list[MemberLine] = []
        for member in members:
            if len(lines) % MEMBERS_TOGETHER == 0:
                await trio.lowlevel.checkpoint()
            lines.append(member.line(known if lag is not None else None))
        return page.model_copy(
            update={
                "member_list": tuple(lines),
                "partitions": () if known is None else tuple(partition_lines(known, lines, now_ms)),
                "next_step": None if page.blocker else self._next_step(snapshot, stats),
                "last_step": last_step(None if stats is None else stats.last_step),
                "lag_before": self.steps.lag_before(group_id),
                "lag_history": () if known is None else tuple(known.history),
            }
        )

    def _next_step(self, snapshot: GroupSnapshot, stats: GroupStats | None) -> str | None:
        if snapshot.state is None:
            return None
        config = in_force(self._config_of(snapshot.group_id), snapshot.state.config_overrides)
        return next_step(snapshot, config, {} if stats is None else stats.clients)

    async def client(self, client_id: str) -> ClientPage:
        """One client over all groups that are in memory or forwarded. Raises StateLogError."""
        group_ids = sorted(self._groups.views.ids_here())
        await self._groups.views.cluster.refresh(group_ids)
        members: list[ClientMember] = []
        for group_id in group_ids:
            await trio.lowlevel.checkpoint()
            snapshot = self._groups.views.snapshot(group_id)
            stats = self.group_stats.of(group_id, self._clock.now_ms())
            is_fresh = self.lags.show(group_id, self._clock.now_ms()) is not None
            lag = self.lags.of(group_id) if is_fresh else None
            lines = [*members_of_client(snapshot, stats, client_id, lag)]
            if not lines:
                continue
            group = await self.line(group_id)
            members += [
                ClientMember(
                    group_id=group.group_id,
                    mode=group.mode,
                    state=group.state,
                    blocker=group.blocker,
                    lag_at_ms=group.lag_at_ms,
                    member=member,
                )
                for member in lines
            ]
        return ClientPage(
            client_id=short(client_id),
            members=tuple(members[:CLIENT_MEMBERS_MAX]),
            left_out=max(0, len(members) - CLIENT_MEMBERS_MAX),
        )

    async def in_memory(
        self,
    ) -> AsyncIterator[tuple[GroupLine, Counter[tuple[str, str]], AnchorPhase]]:
        """The groups that are in memory or forwarded, each with its members by protocol and phase,
        and its anchor. The log is not read."""
        for group_id in self._groups.views.ids_here():
            await trio.lowlevel.checkpoint()
            snapshot = self._groups.views.snapshot(group_id)
            summary = None
            if snapshot.state is not None and snapshot.state.group is not None:
                summary = summarize(snapshot.state, config=self._config_of(snapshot.group_id))
            stats = self.group_stats.of(group_id, self._clock.now_ms())
            lag = self.lags.show(group_id, self._clock.now_ms())
            yield (
                group_line(snapshot, summary, stats, lag),
                members_by_phase(snapshot),
                snapshot.anchor,
            )

    async def group_readiness(self, group_id: str) -> GroupReadiness:
        """Whether a group is ready to be adopted and converted. Asks the cluster, and changes
        nothing. Raises NoSuchGroup, StateLogError."""
        page = await self.group(group_id)
        outcome = await self._groups.orders.adopt(group_id, dry_run=True)
        stats = self.group_stats.of(group_id, self._clock.now_ms())
        config = self._config_of(group_id)
        return assess(self._groups.views.snapshot(group_id), page, stats, outcome.reasons, config)

    async def _summary(self, snapshot: GroupSnapshot) -> GroupView | None:
        """The state, from memory or from the log. Raises StateLogError."""
        if snapshot.state is not None:
            if snapshot.state.group is None:
                return None
            return summarize(snapshot.state, config=self._config_of(snapshot.group_id))
        if snapshot.decision.mode is Mode.FORWARDED:
            return None
        return await self._groups.views.summary(snapshot.group_id)

    # -- events ----------------------------------------------------------------------------------

    def latest_events(self, group_id: str | None, events_max: int = EVENTS_MAX) -> Events:
        """The latest events of a group, or of the gateway and all groups."""
        events = self.events.latest(group_id, events_max=min(events_max, EVENTS_MAX))
        return Events(
            stream_id=self.events.stream_id,
            last=self.events.last,
            events=tuple(
                EventLine(
                    position=event.position, line=event.line.decode(), sentence=event.sentence
                )
                for event in events
            ),
        )

    # -- the gateway -----------------------------------------------------------------------------

    def readiness(self) -> Readiness:
        """Whether the gateway can serve clients, and why not."""
        reasons = {
            "the groups of the state log are still being loaded": not self._groups.is_resumed,
            "another gateway may own the state log": not self._groups.drivers.may_answer,
            "no broker of the cluster answers": self._cluster.is_away,
            "the gateway is shutting down": self._stop.is_set(),
        }
        reasons_now = tuple(reason for reason, is_true in reasons.items() if is_true)
        return Readiness(is_ready=not reasons_now, reasons=reasons_now)

    def gateway(self) -> GatewayLine:
        """The gateway as a whole."""
        return GatewayLine(
            version=version("groupferry"),
            gateway_id=self.about.gateway_id,
            cluster_id=self._cluster.cluster_id,
            bootstrap=self.about.bootstrap,
            brokers=tuple(sorted(self._cluster.brokers)),
            readiness=self.readiness(),
            connections=self._limiter.count,
            max_connections=self.about.connections_max(),
            hosted=len(self._groups.drivers.hosted_ids()),
            process=None if self._show_process is None else self._show_process(),
            fleet=self._show_fleet(),
            started_ms=self._started_ms,
            now_ms=self._clock.now_ms(),
        )
