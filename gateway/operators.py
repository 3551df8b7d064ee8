"""What a gateway offers to its operators: the board, and commands, at the control socket and by
HTTP."""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import trio

from gateway.admin.config import AdminConfig
from gateway.admin.socket_server import serve_commands
from gateway.board.board import REGRESSION_SHARE, About, Board
from gateway.board.lag_watch import LagWatch
from gateway.board.lags import UnreportedCommits
from gateway.board.recent_events import RecentEvents
from gateway.board.views import FleetLine, ProcessLine
from gateway.cluster.broker_connection import Address
from gateway.cluster.cluster import Cluster
from gateway.control.fleet_door import FleetDoor
from gateway.control.handlers import Handlers
from gateway.control.messages import CommandRefused, HoldCommand
from gateway.data_path.client_warnings import ClientWarnings
from gateway.data_path.config import Limits
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.data_path.removal import Removal
from gateway.fleet.member import FleetMember
from gateway.fleet.parent_link import ParentLink
from gateway.fleet.seated_member import SeatedMember
from gateway.groups.clock import Clock
from gateway.groups.group_limits import GroupLimits
from gateway.groups.groups import Groups
from gateway.groups.groups_elsewhere import GroupsElsewhere
from gateway.groups.pauses import Pauses
from gateway.hosting.rules import HostingRules
from gateway.journal.journal import Journal
from gateway.observers.counts import AnswerCounts, GroupCounts
from gateway.shard_moves import ShardMoves
from gateway.state_log.log import StateLogError

if TYPE_CHECKING:
    from gateway.admin.guard import App

log = structlog.get_logger()

Measure = Callable[[], Awaitable[bytes]]
"""The metrics of this moment, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorsConfig:
    """How operators reach the gateway."""

    control_folder: Path | None = None
    """The state folder, locked: commands arrive at a socket in it. None: there are none."""
    admin: AdminConfig | None = None
    """The admin API; None: there is none."""
    hold_on_regression: bool = False
    """Whether a step of a migration that makes it worse puts the group on hold."""
    regression_share: float = REGRESSION_SHARE
    """The part of what a group consumes that may stay behind after a step."""
    member: FleetMember | None = None
    """The process in its fleet, if it is in one."""
    fleet_folder: Path | None = None
    """The state folder of the whole fleet."""
    link: ParentLink | None = None
    """The process's link to the parent of the fleet."""
    on_admin: Callable[[int], object] = lambda _port: None
    """Called with the port of the admin API."""


NO_OPERATORS = OperatorsConfig()
"""No one watches."""


class Operators:
    """Watches the gateway for its operators, and serves them."""

    def __init__(
        self,
        config: OperatorsConfig,
        groups: Groups,
        rules: HostingRules,
        *,
        cluster: Cluster,
        clock: Clock,
        pauses: Pauses,
        journal: Journal,
        counts: GroupCounts,
        client_warnings: ClientWarnings,
        limits: Limits,
        group_limits: GroupLimits,
        limiter: ConnectionLimiter,
        removal: Removal,
        stop: trio.Event,
        unreported_commits: UnreportedCommits,
        moves: ShardMoves | None = None,
        elsewhere: GroupsElsewhere | None = None,
    ) -> None:
        """`moves` of shards, in a process of a fleet. `elsewhere`: the groups of other machines, if
        this process lists them."""
        self._config = config
        self._unreported_commits = unreported_commits
        self._stop = stop
        self._limits = limits
        self._gateway_id = journal.gateway_id
        self._board = Board(
            groups,
            cluster=cluster,
            clock=clock,
            config_of=rules.config_of,
            stop=stop,
            limiter=limiter,
            regression_share=config.regression_share,
            show_process=None if moves is None else partial(_process_line, moves),
            show_fleet=partial(_fleet_lines, config.member, elsewhere),
            elsewhere=elsewhere,
        )
        pauses.listen(lambda _length_ms, _grace_ms: self._board.steps.drop_open())
        self._cluster, self._emit, self._journal = cluster, journal.emit, journal
        self._traffic = limiter.traffic
        self._group_limits = group_limits
        self._clock = clock
        self._counts, self._client_warnings = counts, client_warnings
        self._handlers = Handlers(
            groups, self._board, journal.emit, removal, stop, member=config.member, link=config.link
        )
        self._measure: Measure | None = None
        if config != NO_OPERATORS:
            journal.listen(self._board.take)

    async def watch_lag(self) -> None:
        """Watch how far groups are behind, until cancelled. Nothing is asked while no one
        watches."""
        if self._config != NO_OPERATORS:
            await LagWatch(
                self._board.lags,
                self._board.steps,
                cluster=self._cluster,
                now_ms=self._clock.now_ms,
                emit=self._emit,
                hold=self._hold if self._config.hold_on_regression else None,
                unreported_commits=self._unreported_commits,
            ).run()

    async def _hold(self, group_id: str, reason: str) -> None:
        """Hold a group, unless an operator has done so already."""
        with suppress(StateLogError, CommandRefused):
            if (await self._board.line(group_id)).policy == "allow":
                await self._handlers.answer(
                    HoldCommand(group_id=group_id), f"hold_on_regression: {reason}"
                )

    async def serve_admin(self, answers: AnswerCounts, nursery: trio.Nursery) -> None:
        """Begin to serve the admin API, until the nursery ends: a gateway that is not ready yet, or
        no longer, says so. Raises ListenError."""
        if self._config.admin is None:
            return
        from gateway.admin.app import ApiContext, admin_app  # slow to load, and not always needed
        from gateway.admin.server import serve_http
        from gateway.metrics import Metrics, MetricSources

        metrics = Metrics(
            MetricSources(
                board=self._board,
                limits=self._group_limits,
                answers=answers,
                traffic=self._traffic,
                counts=self._counts,
                client_warnings=self._client_warnings,
                now_ms=self._clock.now_ms,
                groups_max=self._config.admin.metrics_groups_max,
            )
        )
        nursery.start_soon(metrics.watch_lag)
        self._measure = metrics.measure
        door = self._open_door(metrics.measure, nursery)
        app = admin_app(
            ApiContext(
                board=self._board,
                handlers=door or self._handlers,
                measure=metrics.measure if door is None else door.measure,
                token=self._config.admin.token,
                view_token=self._config.admin.view_token,
            )
        )
        host, port = await nursery.start(partial(serve_http, app, self._config.admin))
        log.info("admin_listening", address=f"{host}:{port}")
        self._config.on_admin(port)

    def _open_door(self, measure: Measure, nursery: trio.Nursery) -> FleetDoor | None:
        """What answers for all processes of a fleet; None for a single process."""
        member, folder = self._config.member, self._config.fleet_folder
        if member is None or folder is None:
            return None
        events = RecentEvents()
        self._journal.listen(events.take)
        door = FleetDoor(self._handlers, measure, member, folder, events)
        nursery.start_soon(door.follow_others)
        return door

    async def serve_commands(self, address: Address, nursery: trio.Nursery) -> None:
        """Begin to take commands; the gateway listens on this address. Raises NoControlSocket."""
        self._board.about = About(
            gateway_id=self._gateway_id,
            bootstrap=f"{address[0]}:{address[1]}",
            connections_max=lambda: self._limits.max_connections,
        )
        if self._config.control_folder is None:
            return
        await nursery.start(
            partial(
                serve_commands, self._config.control_folder, self._make_local_app, stop=self._stop
            )
        )

    def _make_local_app(self) -> "App":
        """The admin API for this process alone, at the control socket."""
        from gateway.admin.app import ApiContext, admin_app  # slow to load, and not always needed

        return admin_app(
            ApiContext(
                board=self._board,
                handlers=self._handlers,
                measure=self._measure,
                is_local=True,
            )
        )


def _process_line(moves: ShardMoves) -> ProcessLine:
    """How a process of a fleet stands."""
    member, last = moves.member, moves.last
    return ProcessLine(
        slot=member.process,
        pid=os.getpid(),
        shards=tuple(sorted(member.serving)),
        own_shards=sum(map(member.is_home, member.serving)),
        moved_at_ms=None if last is None else last.at_ms,
        move_took_ms=None if last is None else last.took_ms,
    )


def _fleet_lines(
    member: FleetMember | None, elsewhere: GroupsElsewhere | None
) -> tuple[FleetLine, ...]:
    """How the gateways of a fleet on several machines stand, by its latest table."""
    if not isinstance(member, SeatedMember):
        return ()
    return tuple(
        FleetLine(
            name=seat.name,
            address=f"{seat.address.host}:{seat.address.port}",
            slot=seat.slot,
            shards=tuple(sorted(member.table.shards_of(seat.slot))),
            state="leaving" if seat.is_leaving else "serving" if seat.serves else "starting",
            is_here=member.process_in(seat.slot) is not None,
            seen_ms=member.seen_ms.get(seat.process_key),
            trouble="" if elsewhere is None else elsewhere.trouble_of(seat.slot),
        )
        for seat in member.table.seats
    )
