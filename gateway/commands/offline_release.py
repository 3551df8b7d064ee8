"""`groupferry release --offline`: groups go back to the cluster though their gateway does not run.

The steps are those of any release ([release.md](docs/release.md)), by the same code. No client can
reach this process, so each member has given up once its session is over.
"""

import sys
from collections.abc import Collection
from contextlib import AsyncExitStack, closing
from dataclasses import replace

import trio

from coordinator.engine import GroupEngine
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.load import has_adoption, has_members, is_adopted, release_in
from coordinator.group.state import GroupState
from coordinator.interface.volatile_records import DeadlineKind
from gateway.cluster.errors import UpstreamError
from gateway.cluster.finding import find_cluster
from gateway.error_groups import first_of
from gateway.gateway import GatewayServices, gateway_services
from gateway.gateway_config import gateway_config
from gateway.groups.group_orders import NO_ANCHORS, RELEASE_TIMEOUT_S
from gateway.groups.new_protocol import new_protocol_of
from gateway.hosting.move_requests import ReleaseRequest
from gateway.hosting.release import why_not_released
from gateway.journal.journal import Sinks
from gateway.journal.line_files import FOLDER_NAME, LineFiles
from gateway.open_log import open_state_log
from gateway.readable import escape
from gateway.reloading import Reloading, limits_of
from gateway.security import Security, security_of
from gateway.settings import Settings
from gateway.state_folder import StateFolderError, StateFolderInUse, bind_to_cluster, lock_folder
from gateway.state_log.log import StateLogError, StateLogUnusable
from gateway.state_log.sqlite_layout import FILE_NAME

AT_ONCE_MAX = 500
"""Groups that are released at a time. Each waits for the sessions of its members."""


def run(settings: Settings, group_id: str | None) -> int:
    """Release a group, or all if `group_id` is None. Returns the exit status.

    Raises SettingsError if a file that a setting names cannot be used.
    """
    if settings.state != "sqlite":
        # This process would take a log in the cluster from a gateway that runs somewhere else.
        return _fail("it needs the state log of a folder: start a gateway, and release there")
    if not (settings.state_dir / FILE_NAME).exists():
        return _fail(f"there is no state log in {settings.state_dir}; see --state-dir")
    security = security_of(settings)
    reason = ""
    try:
        return trio.run(_release, settings, security, group_id)
    except* StateFolderInUse:
        reason = f"a gateway runs with {settings.state_dir}: leave out --offline"
    except* (UpstreamError, StateFolderError, StateLogUnusable, StateLogError) as failures:
        reason = str(first_of(failures))
    return _fail(reason)


async def _release(settings: Settings, security: Security, group_id: str | None) -> int:
    limits = limits_of(settings)
    reloading = Reloading(settings, lambda: settings, security=security, limits=limits)
    config = gateway_config(settings, security, reloading)
    async with AsyncExitStack() as resources:
        resources.enter_context(lock_folder(settings.state_dir))
        cluster = await find_cluster(settings.upstream, security.own)
        bind_to_cluster(settings.state_dir, cluster.cluster_id)
        config = replace(config, upstream=cluster.addresses, cluster_id=cluster.cluster_id)
        state_log = await resources.enter_async_context(
            open_state_log(settings, security.own, cluster.cluster_id)
        )
        files = resources.enter_context(closing(LineFiles(settings.state_dir / FOLDER_NAME)))
        sinks = Sinks(files=files, topic=None)
        offline = Offline(
            await resources.enter_async_context(gateway_services(config, state_log, sinks))
        )
        if group_id is not None:
            return await offline.release(group_id)
        statuses = [0]
        limit = trio.CapacityLimiter(min(AT_ONCE_MAX, config.max_groups))

        async def release(group_id: str) -> None:
            async with limit:
                statuses.append(await offline.release(group_id))

        hosted_ids = await offline.hosted_ids()
        if not hosted_ids:
            _print_line("no group is hosted or adopted")
        async with trio.open_nursery() as nursery:
            for hosted_id in hosted_ids:
                nursery.start_soon(release, hosted_id)
        return max(statuses)


class Offline:
    """The groups of a log, while no client can reach this process."""

    def __init__(self, backend: GatewayServices) -> None:
        self._backend = backend
        self._services = backend.services
        self._state_log = backend.services.state_log

    async def hosted_ids(self) -> Collection[str]:
        """The groups that are adopted, have members or change their coordinator, and those that
        cannot be read. Raises StateLogError."""
        hosted_ids = list(await self._state_log.unreadable_groups())
        for group_id in await self._state_log.group_ids():
            records = await self._state_log.read(group_id)
            release = release_in(records)
            is_moving = has_adoption(records) or (release is not None and release.is_under_way)
            if is_moving or has_members(records) or is_adopted(records):
                hosted_ids.append(group_id)
        return hosted_ids

    async def release(self, group_id: str) -> int:
        """Give a group back to the cluster, and report the outcome. Returns the exit status."""
        try:
            state = await self._read(group_id)
        except StateLogError as error:
            return _fail(str(error), group_id)
        if why_not := self._why_not(state):
            return _fail(why_not, group_id)
        for note in await self._notes(state):
            _print_line(f"{group_id}: {note}")
        sessions_ms = self._sessions_ms(state)
        if sessions_ms:
            _print_line(f"{group_id}: its members may hold partitions for {sessions_ms // 1000} s")
        limit_s = RELEASE_TIMEOUT_S + sessions_ms / 1000
        driver = self._backend.groups.drivers.driver(group_id)
        outcome = None
        with trio.move_on_after(limit_s):
            outcome = await driver.move(ReleaseRequest(is_unattended=True))
        if outcome is None:
            anchor = driver.group.anchor
            reason = (
                anchor.reason if anchor.is_here else "the cluster or the state log does not answer"
            )
            return _fail(f"not in {limit_s:.0f} s: {reason}; try again", group_id)
        if not outcome.is_released:
            return max(_fail(reason, group_id) for reason in outcome.reasons)
        _print_line(f"{group_id} is released")
        return 0

    async def _read(self, group_id: str) -> GroupState:
        """Raises StateLogError."""
        engine = GroupEngine(group_id, self._backend.rules.config_of(group_id))
        records = await self._state_log.read(group_id)
        engine.load(records, now_ms=self._services.clock.now_ms())
        return engine.state

    def _why_not(self, state: GroupState) -> str:
        release = state.release
        if state.adoption is not None:
            return "its adoption is under way: start the gateway, which ends it"
        if release is not None and not release.is_under_way:
            return "it has been released already: nothing to do"
        if release is None and state.group is None:
            return "the state log does not have it: see groupferry state"
        if not self._backend.rules.can_anchor:
            return NO_ANCHORS
        return ""

    def _sessions_ms(self, state: GroupState) -> int:
        """How long its members may hold partitions."""
        release, now_ms = state.release, self._services.clock.now_ms()
        recalled = () if release is None or release.group is None else release.group.members
        sessions_ms = [member.session_timeout_ms for member in recalled]
        for key, at_ms in state.deadlines.items():
            if key.kind is DeadlineKind.SESSION:
                sessions_ms.append(at_ms - now_ms)
        return max(sessions_ms, default=0)

    async def _notes(self, state: GroupState) -> Collection[str]:
        """What to do about its native members."""
        group = state.group
        if not isinstance(group, ConsumerGroup) or not group.has_native_members:
            return ()
        cluster = await new_protocol_of(self._services.cluster, state.group_id)
        is_mixed = group.native_count < len(group.members)
        first = ("it has members of both protocols: start a native one first",) if is_mixed else ()
        return why_not_released(state, cluster) or first


def _print_line(line: str) -> None:
    sys.stdout.write(escape(line) + "\n")
    sys.stdout.flush()


def _fail(reason: str, group_id: str | None = None) -> int:
    what = "nothing is released" if group_id is None else f"{group_id} is not released"
    sys.stderr.write(escape(f"groupferry: {what}: {reason}") + "\n")
    return 1
