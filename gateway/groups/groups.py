"""All groups of this gateway, from its start to its end.

`drivers` has the groups in memory, `router` decides who answers for a group, `orders` carries out
what operators want, and `views` shows groups. Here is what concerns all of them together: loading
them at the start, making room, noticing pauses of the process, and leaving the cluster at the end.
"""

import contextlib
from collections.abc import Callable, Collection

import structlog
import trio

from coordinator.group import load
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.load import (
    has_adoption,
    has_members,
    release_in,
)
from coordinator.interface.events import LeaveGroupReceived, Leaver
from gateway.events.group_events import GroupLoaded
from gateway.groups.configured_releases import ConfiguredReleases
from gateway.groups.group_driver import GroupDriver
from gateway.groups.group_drivers import GroupDrivers, GroupFailed, GroupRefused
from gateway.groups.group_orders import GroupOrders
from gateway.groups.group_reporter import forget_events
from gateway.groups.group_router import GroupRouter
from gateway.groups.group_views import GroupViews
from gateway.groups.group_work import Services
from gateway.hosting.inputs import Ending
from gateway.hosting.rules import HostingRules
from gateway.state_log.log import StateLog, StateLogError, StateLogUnreadable

RESUME_RETRY_S = 1.0
"""The delay before an unreadable log is tried again at the start."""
LOOK_FOR_ROOM_S = 1.0
"""How often stalled groups are searched for while no place is left."""
PAUSES_LOOK_S = 1.0
"""How often the clock is read to notice a pause of the process."""
GIVE_UP_TIMEOUT_S = 3.0
"""How long what is under way in groups may take that another process takes over. Beyond it they end
as if this process were killed: no commit that is still on its way can be stored."""
GIVE_UP_LOOK_S = 0.01
LEAVE_TIMEOUT_S = 5.0
"""The time for all anchors together to leave when the gateway exits."""

log = structlog.get_logger()


class Groups:
    """The groups that are hosted, and those that the gateway has heard of."""

    def __init__(self, rules: HostingRules, services: Services) -> None:
        self._rules = rules
        self._services = services
        self._state_log = services.state_log
        self._journal = services.journal
        self._clock = services.clock
        self.drivers = GroupDrivers(rules, services)
        self.router = GroupRouter(rules, services, self.drivers)
        self.orders = GroupOrders(rules, services, self.drivers)
        self._configured_releases = ConfiguredReleases(
            self.orders.release_to_cluster, self._is_kept_against_setting
        )
        self.views = GroupViews(rules, services, self.drivers, self._configured_releases.obstacles)
        self._has_begun = False
        self._look_for_room_ms = 0
        services.limits.hosted.on_refusal = self._make_room
        self._journal.snapshot_of = self._snapshot

    async def watch_pauses(self) -> None:
        """Notice pauses of the process until cancelled."""
        while True:
            await trio.sleep(PAUSES_LOOK_S)
            self._services.pauses.observe(self._clock.now_ms())

    async def resume(
        self,
        state_log: StateLog | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Load all groups of the log, or of this part of it, that have members, so that members
        that died while no gateway ran are fenced, and release those that a setting leaves to the
        cluster. Reports when requests may come: the group of a request is loaded first.

        If another gateway takes the log meanwhile, retry: either the log comes back, or this
        gateway is told to end."""
        state_log = state_log or self._state_log
        resumed, left_out = self.drivers.resumed, self.drivers.left_out
        while True:
            try:
                group_ids = tuple(dict.fromkeys(await _all_in_log(state_log)))
                self.drivers.unresumed.update(group_ids)
                self._rules.adopted.update(await _maybe_adopted(state_log))
                break
            except StateLogError as error:
                await self._delay_resuming(error)
        self._has_begun = True
        task_status.started()
        for group_id in group_ids:
            await trio.lowlevel.checkpoint()  # the log may have thousands of groups
            while group_id in self.drivers.unresumed:  # and no request has come
                try:
                    await self._resume_if_live(group_id)
                except StateLogError as error:
                    await self._delay_resuming(error)
        resumed, left_out = self.drivers.resumed - resumed, self.drivers.left_out - left_out
        if resumed:
            log.info("groups_resumed", groups=resumed)
        if left_out:
            log.error("groups_left_out", groups=left_out, hosted=resumed)
        await self._configured_releases.run(group_ids)

    async def give_up(self, concerns: Callable[[str], bool]) -> int:
        """Leave groups to another process, which continues from the log. Their requests must not
        come any more. What waits is refused; what is being written, and commits on their way, end
        first, unless that takes too long. Returns how many groups had members."""
        self.drivers.unresumed = {name for name in self.drivers.unresumed if not concerns(name)}
        leaving = [driver for name, driver in self.drivers.by_id.items() if concerns(name)]
        hosted = sum(driver.group.is_live for driver in leaving)
        for driver in leaving:
            driver.feed(Ending())
        with trio.move_on_after(GIVE_UP_TIMEOUT_S):
            while any(driver.is_busy for driver in leaving):
                await trio.sleep(GIVE_UP_LOOK_S)
        self.drivers.drop(concerns)
        return hosted

    def _is_kept_against_setting(self, group_id: str) -> bool:
        """Whether the group is hosted although `groups_forward` leaves it to the cluster."""
        if self.drivers.is_ending or not (
            self._rules.can_anchor and self.drivers.get_routing(group_id).is_configured
        ):
            return False
        return self.drivers.may_be_live(group_id) or self.drivers.is_adopted(group_id)

    async def _resume_if_live(self, group_id: str) -> None:
        """Continue the group's events, and load it if it has members or is being adopted. Raises
        StateLogError."""
        self._journal.take_up(group_id)
        try:
            records = await self._state_log.read(group_id)
            is_live = has_members(records) or has_adoption(records)
            if not load.is_adopted(records):
                self._rules.adopted.discard(group_id)
            if (release := release_in(records)) is not None:
                is_live |= release.is_under_way
                if not release.is_under_way:  # until then its anchor must be taken over
                    self._rules.released.add(group_id)
        except StateLogUnreadable as unreadable:
            log.error("group_unreadable", group_id=group_id, reason=str(unreadable))  # noqa: TRY400
            is_live = False
        if group_id not in self.drivers.unresumed:
            return  # a request has loaded it, or another process has it meanwhile
        if not self.drivers.owns(group_id):
            is_live = False  # another process is about to have it: this one gives it up next
        if is_live and self.drivers.has_room(group_id):
            self.drivers.driver(group_id)
        self.drivers.unresumed.discard(group_id)

    async def _delay_resuming(self, error: StateLogError) -> None:
        log.warning("resume_delayed", reason=str(error))
        await trio.sleep(RESUME_RETRY_S)

    def release_waiting(self) -> None:
        """Answer parked requests and park none from now on: the gateway is shutting down."""
        self.drivers.is_ending = True
        for driver in tuple(self.drivers.by_id.values()):
            driver.feed(Ending())

    async def leave_all(self) -> None:
        """Release all groups, with or without members: their state ends with this process."""
        with trio.move_on_after(LEAVE_TIMEOUT_S) as limit:
            async with trio.open_nursery() as nursery:
                for driver in tuple(self.drivers.by_id.values()):
                    nursery.start_soon(driver.leave)
        if limit.cancelled_caught:
            held = sum(driver.group.anchor.is_here for driver in self.drivers.by_id.values())
            log.warning("anchors_left_behind", groups=held)

    def _make_room(self) -> None:
        """Dissolve stalled groups: a client that only ever joins, under many group ids and with the
        longest session, must not shut out other clients."""
        now_ms = self._clock.now_ms()
        if now_ms < self._look_for_room_ms:
            return
        self._look_for_room_ms = now_ms + round(LOOK_FOR_ROOM_S * 1000)
        for group_id, driver in self.drivers.by_id.items():
            if driver.group.engine.has_stalled(now_ms):
                self._services.nursery.start_soon(self._dissolve, group_id, driver)

    async def _dissolve(self, group_id: str, driver: GroupDriver) -> None:
        """Remove all members of a classic group, as if each had left."""
        log.warning("group_dissolved", group_id=group_id, reason="no member got past joining")
        group = driver.group.engine.core.state.group
        if isinstance(group, ClassicGroup):
            leavers = (
                *(
                    Leaver(member_id=member_id, instance_id=member.instance_id)
                    for member_id, member in group.members.items()
                ),
                *(Leaver(member_id=member_id) for member_id in group.pending_ids),
            )
            with contextlib.suppress(GroupRefused, GroupFailed):
                await self.drivers.ask(
                    group_id, lambda token, _: LeaveGroupReceived(token=token, members=leavers)
                )

    @property
    def is_resumed(self) -> bool:
        """Whether every group of the log that may have members has been loaded."""
        return self._has_begun and not self.drivers.unresumed

    async def forget_events(self) -> None:
        """Forget the events of deleted groups that could not do so. Raises StateLogError."""
        known = {*await self._state_log.group_ids(), *await self._state_log.unreadable_groups()}
        for group_id in await self._state_log.told_group_ids():
            if group_id not in known and group_id not in self.drivers.by_id:
                await forget_events(group_id, self._journal, self._state_log)

    def _snapshot(self, group_id: str) -> GroupLoaded | None:
        """A hosted group as its lines have told it; None if nothing of it is in memory."""
        driver = self.drivers.by_id.get(group_id)
        return None if driver is None else driver.reporter.snapshot()


async def _all_in_log(state_log: StateLog) -> Collection[str]:
    return (
        *await state_log.told_group_ids(),
        *await state_log.group_ids(),
        *await state_log.unreadable_groups(),
    )


async def _maybe_adopted(state_log: StateLog) -> Collection[str]:
    """The groups that may be adopted, as long as they have not been read. Raises StateLogError."""
    alone = await state_log.configs_alone()
    groups = (group_id for group_id in await state_log.group_ids() if group_id not in alone)
    return (*groups, *await state_log.unreadable_groups())
