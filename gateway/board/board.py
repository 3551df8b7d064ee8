"""Answers what operators ask: from the groups themselves, and from the events since the start."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
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
from gateway.board.lags import Lags
from gateway.board.reading import group_line, group_page, members_by_phase, sums_shown
from gateway.board.recent_events import RecentEvents
from gateway.board.steps import Steps
from gateway.board.tallies import GROUP_CHARS_MAX, Tallies
from gateway.board.views import (
    EventLine,
    Events,
    GatewayLine,
    GroupLine,
    GroupList,
    GroupPage,
    GroupReadiness,
    MemberLine,
    Readiness,
)
from gateway.cluster.cluster import Cluster
from gateway.data_path.places import ConnectionLimiter
from gateway.events.event import Envelope
from gateway.groups.clock import Clock
from gateway.groups.glance import Glance
from gateway.groups.groups import Groups as HostedGroups
from gateway.hosting.states import AnchorPhase, Mode

GROUPS_MAX = 500
"""Groups in one answer."""
EVENTS_MAX = 200
"""Events in one answer."""
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
        places: ConnectionLimiter,
        regression_share: float = REGRESSION_SHARE,
    ) -> None:
        """`regression_share`: of what a group consumes, the part that may stay behind after a
        consumer has changed its protocol."""
        self.events = RecentEvents()
        self.tallies = Tallies(groups.views.state_of)
        self.lags = Lags(groups.views.subscribed_topics)
        self.steps = Steps(self.lags, self.tallies, places.traffic, share=regression_share)
        self._groups = groups
        self._cluster = cluster
        self._clock = clock
        self._config_of = config_of
        self._stop = stop
        self._places = places
        self._started_ms = clock.now_ms()
        self._changes = Changes(self._started_ms)
        self.about = About(gateway_id="", bootstrap="", connections_max=lambda: 0)
        """Set once the gateway listens."""

    def take(self, envelope: Envelope) -> None:
        """See an event. Never raises."""
        self.events.take(envelope)
        self.tallies.take(envelope)
        if len(envelope.group_id or "") <= GROUP_CHARS_MAX:
            self.lags.take(envelope)
            self.steps.take(envelope)

    # -- groups ----------------------------------------------------------------------------------

    async def groups(
        self, after: str = "", groups_max: int = GROUPS_MAX, since: int | None = None
    ) -> GroupList:
        """The groups whose ids come after this one. `since`: the revision of an earlier look, or 0;
        groups that are shown as then are left out. Raises StateLogError."""
        group_ids = await self._groups.views.all_ids()
        await self._groups.views.cluster.refresh(group_ids)
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
                changed = changes.note(group_id, await self._mark(group_id))
                if changed <= since and not is_complete:
                    continue
            if len(lines) == min(groups_max, GROUPS_MAX):
                next_after = lines[-1].group_id
                break
            await trio.lowlevel.checkpoint()
            lines.append(await self.line(group_id))
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
        tally = self.tallies.of(group_id, now_ms)
        sums = None if tally is None else sums_shown(tally)
        views = self._groups.views
        cluster_group = None
        if views.is_forwarded(group_id):
            cluster_group = read_cluster_group(views.glance(group_id))
        return await views.mark(group_id), cluster_group, sums, self.lags.total(group_id, now_ms)

    async def line(self, group_id: str) -> GroupLine:
        """One group, as in the list. Raises StateLogError."""
        glance = self._groups.views.glance(group_id)
        tally = self.tallies.of(group_id, self._clock.now_ms())
        lag = self.lags.total(group_id, self._clock.now_ms())
        return group_line(glance, await self._summary(glance), tally, lag)

    async def group(self, group_id: str) -> GroupPage:
        """One group with its members. Raises NoSuchGroup, StateLogError."""
        await self._groups.views.cluster.refresh((group_id,))
        glance = self._groups.views.glance(group_id)
        summary = await self._summary(glance)
        tally = self.tallies.of(group_id, self._clock.now_ms())
        is_known = summary is not None or glance.watched is not None
        is_known |= glance.is_adopting or bool(glance.anchor_why)
        if not is_known and glance.verdict.mode in (Mode.UNKNOWN, Mode.HOSTED):
            raise NoSuchGroup
        lag = self.lags.total(group_id, self._clock.now_ms())
        page, members = group_page(glance, summary, tally, lag)
        known = self.lags.of(group_id)
        lines: list[MemberLine] = []
        for member in members:
            if len(lines) % MEMBERS_TOGETHER == 0:
                await trio.lowlevel.checkpoint()
            lines.append(member.line(known if lag is not None else None))
        return page.model_copy(
            update={
                "member_list": tuple(lines),
                "next_step": None if page.blocker else self._next_step(glance),
                "last_step": last_step(None if tally is None else tally.last_step),
                "lag_before": self.steps.lag_before(group_id),
                "lag_history": () if known is None else tuple(known.history),
            }
        )

    def _next_step(self, glance: Glance) -> str | None:
        if glance.state is None:
            return None
        config = self._config_of(glance.group_id)
        return next_step(glance, in_force(config, glance.state.config_overrides))

    async def in_memory(
        self,
    ) -> AsyncIterator[tuple[GroupLine, Counter[tuple[str, str]], AnchorPhase]]:
        """The groups that are in memory or forwarded, each with its members by protocol and phase,
        and its anchor. The log is not read."""
        for group_id in self._groups.views.ids_here():
            await trio.lowlevel.checkpoint()
            glance = self._groups.views.glance(group_id)
            summary = None
            if glance.state is not None and glance.state.group is not None:
                summary = summarize(glance.state, config=self._config_of(glance.group_id))
            tally = self.tallies.of(group_id, self._clock.now_ms())
            lag = self.lags.total(group_id, self._clock.now_ms())
            yield group_line(glance, summary, tally, lag), members_by_phase(glance), glance.anchor

    async def group_readiness(self, group_id: str) -> GroupReadiness:
        """Whether a group is ready to be adopted and converted. Asks the cluster, and changes
        nothing. Raises NoSuchGroup, StateLogError."""
        page = await self.group(group_id)
        outcome = await self._groups.orders.adopt(group_id, dry_run=True)
        tally = self.tallies.of(group_id, self._clock.now_ms())
        config = self._config_of(group_id)
        return assess(self._groups.views.glance(group_id), page, tally, outcome.reasons, config)

    async def _summary(self, glance: Glance) -> GroupView | None:
        """The state, from memory or from the log. Raises StateLogError."""
        if glance.state is not None:
            if glance.state.group is None:
                return None
            return summarize(glance.state, config=self._config_of(glance.group_id))
        if glance.verdict.mode is Mode.FORWARDED:
            return None
        return await self._groups.views.summary(glance.group_id)

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
            connections=self._places.count,
            max_connections=self.about.connections_max(),
            started_ms=self._started_ms,
            now_ms=self._clock.now_ms(),
        )
