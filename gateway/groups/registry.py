"""The running groups: one task for each, within the configured limits."""

import contextlib
import math
from collections.abc import Collection, Iterable, Set
from functools import partial

import structlog
import trio

from coordinator.engine import GroupEngine
from coordinator.group.load import has_group, has_members, overrides_in
from coordinator.handlers.group_configs import describe as describe_configs
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import OffsetCommitEnded
from coordinator.interface.replies import ConfigView, GroupView, Reply
from coordinator.interface.topics import Topics
from gateway.batches import batches
from gateway.cluster.cluster import Cluster
from gateway.events.journal import Journal
from gateway.groups.aside import Aside
from gateway.groups.clock import Clock
from gateway.groups.group_task import GroupEnded, GroupFailed, GroupTask, forget_events
from gateway.groups.hosting import Hosting, Mode, Verdict
from gateway.groups.inbox import MakeRequest
from gateway.groups.log_health import LogHealth
from gateway.groups.offset_reporter import OffsetReporter
from gateway.groups.process_pauses import ProcessPauses
from gateway.groups.regex_resolver import RegexResolver
from gateway.groups.topics_image import TopicsImage
from gateway.room import Room, TooManyGroups
from gateway.state_log.log import StateLog, StateLogError
from kafka_codecs.error_codes import ErrorCode

RESUME_RETRY_S = 1.0
"""The delay before an unreadable log is tried again at the start."""
LOOK_FOR_ROOM_S = 1.0
"""How often stalled groups are searched for while no place is left."""

log = structlog.get_logger()


class Registry:
    """Starts a group's task at its first request. The task ends once the group is empty."""

    def __init__(
        self,
        *,
        config: GroupConfig,
        cluster: Cluster,
        hosting: Hosting,
        state_log: StateLog,
        max_groups: int,
        max_groups_per_address: int | None = None,
        nursery: trio.Nursery,
        journal: Journal,
        offsets: OffsetReporter,
    ) -> None:
        """`max_groups_per_address`: how many of `max_groups` one client address may begin."""
        self._config = config
        self._cluster = cluster
        self._resolver = RegexResolver(cluster)
        self._hosting = hosting
        self._state_log = state_log
        self._room = Room(
            "hosted",
            groups_max=max_groups,
            groups_per_address_max=max_groups_per_address or max_groups,
        )
        self._nursery = nursery
        self._journal = journal
        self._offsets = offsets
        self._clock = Clock()
        self.pauses = ProcessPauses(self._clock, grace_max_ms=config.reconnect_timeout_ms)
        """Runs beside the groups; the caller starts it."""
        self._aside = Aside()
        self._log_health = LogHealth()
        self._tasks: dict[str, GroupTask] = {}
        self._is_ending = False
        self._look_for_room_s = -math.inf

    async def resume(self) -> None:
        """Load all groups of the log that have members, so that members that died while no gateway
        ran are fenced. If another gateway takes the log meanwhile, retry: either the log comes
        back, or this gateway is told to end."""
        while True:
            try:
                return await self._load_all()
            except StateLogError as error:
                log.warning("resume_delayed", reason=str(error))
            await trio.sleep(RESUME_RETRY_S)

    async def _load_all(self) -> None:
        for group_id in await self._state_log.told_group_ids():
            await trio.lowlevel.checkpoint()  # the log may have thousands of groups
            self._journal.take_up(group_id, await self._state_log.last_events(group_id))
        for group_id, why in (await self._state_log.unreadable_groups()).items():
            log.error("group_unreadable", group_id=group_id, reason=why)
        left_out = 0
        for group_id in await self._state_log.group_ids():
            await trio.lowlevel.checkpoint()  # the log may have thousands of groups
            if not has_members(await self._state_log.read(group_id)):
                continue
            try:
                self._task(group_id)
            except TooManyGroups:
                left_out += 1
        if self._tasks:
            log.info("groups_resumed", groups=len(self._tasks))
        if left_out:
            log.error("groups_left_out", groups=left_out, hosted=len(self._tasks))

    async def mode_of(self, group_id: str, *, lets_in: bool = False) -> Verdict:
        """Who answers for the group. A group with members here stays here.

        `lets_in`: whether the request may add a member. If so, the cluster is asked afresh.
        """
        if self.is_live(group_id):
            return Verdict(Mode.HOSTED)
        if lets_in:
            return await self._hosting.look(group_id)
        return await self._hosting.look_lately(group_id)

    async def modes_of(self, group_ids: Iterable[str]) -> dict[str, Verdict]:
        """The same for many groups and for requests that cannot add a member. Unknown groups are
        looked up together."""
        verdicts: dict[str, Verdict] = {}
        for some in batches(tuple(dict.fromkeys(group_ids))):
            live = dict.fromkeys(filter(self.is_live, some), Verdict(Mode.HOSTED))
            others = [each for each in some if each not in live]
            verdicts |= live | await self._hosting.look_at_lately(others)
            await trio.lowlevel.checkpoint()
        return verdicts

    @property
    def may_answer(self) -> bool:
        """Whether the groups' decisions may be told: false once another gateway may own the log."""
        return self._state_log.may_answer

    def still(self, refusal: ErrorCode) -> ErrorCode:
        """The refusal of a group, or NOT_COORDINATOR if another gateway may know better."""
        return refusal if self.may_answer else ErrorCode.NOT_COORDINATOR

    def is_live(self, group_id: str) -> bool:
        """Whether the group has members here."""
        task = self._tasks.get(group_id)
        return task is not None and task.is_live

    async def ask(
        self,
        group_id: str,
        make: MakeRequest,
        topic_names: Iterable[str] = (),
        *,
        client_host: str | None = None,
    ) -> tuple[int, Reply]:
        """Ask a hosted group; see `GroupTask.ask`. `client_host` is counted if the request begins
        the group. Raises TooManyGroups, GroupFailed."""
        names = frozenset(topic_names)
        while True:
            try:
                return await self._task(group_id, client_host).ask(make, names)
            except GroupEnded:
                await trio.lowlevel.checkpoint()

    async def refusal(self, group_id: str, make: MakeRequest, *, client_host: str) -> Reply | None:
        """The engine's refusal of a client's request, if any; see `GroupTask.refusal`. Raises
        TooManyGroups."""
        while True:
            try:
                return await self._task(group_id, client_host).refusal(make)
            except GroupEnded:
                await trio.lowlevel.checkpoint()

    def check_beginning(self, group_id: str, client_host: str) -> None:
        """Raises StateLogError or TooManyGroups if the group could not take its first member now,
        so that its anchor need not join."""
        self._log_health.check()
        self._check_room(group_id, client_host)

    def _check_room(self, group_id: str, client_host: str | None) -> None:
        """Raises TooManyGroups if the group has no place. Stalled groups are then dissolved, so
        that a retry may succeed."""
        if group_id in self._tasks:
            return
        try:
            self._room.check(client_host)
        except TooManyGroups:
            self._make_room()
            raise

    def _make_room(self) -> None:
        """Dissolve stalled groups: a client that only ever joins, under many group ids and with the
        longest session, must not shut out other clients."""
        if trio.current_time() < self._look_for_room_s:
            return
        self._look_for_room_s = trio.current_time() + LOOK_FOR_ROOM_S
        for task in self._tasks.values():
            if task.has_stalled:
                self._nursery.start_soon(self._dissolve, task)

    async def _dissolve(self, task: GroupTask) -> None:
        log.warning("group_dissolved", group_id=task.group_id, reason="no member got past joining")
        with contextlib.suppress(GroupEnded, GroupFailed):
            await task.dissolve()

    def topic_names(self) -> Set[str]:
        """The topics that hosted groups have recently referred to."""
        return frozenset().union(*(task.topic_names for task in self._tasks.values()))

    def end_commit(self, group_id: str, event: OffsetCommitEnded) -> None:
        """Tell a group that a commit has ended. A group without a task has no open commits."""
        if (task := self._tasks.get(group_id)) is not None:
            task.end_commit(event)

    def give_way(self, group_id: str) -> None:
        """Tell a group that another holder has it. The engine fences its members."""
        if (task := self._tasks.get(group_id)) is not None:
            task.give_way()

    async def view(self, group_id: str) -> tuple[GroupView, Topics] | None:
        """A hosted group as admin tools see it, with its topics; None if it does not exist.

        Raises StateLogError.
        """
        if not await self.knows(group_id):
            return None
        if (task := self._loaded(group_id)) is not None:
            return task.describe()
        if group_id in self._tasks:
            raise StateLogError("the group is still being loaded")
        return (await self._load(group_id)).describe(Topics()), Topics()

    async def summary(self, group_id: str) -> GroupView | None:
        """A hosted group without its members, None if it is unknown. Raises StateLogError."""
        if not await self.knows(group_id):
            return None
        if (task := self._loaded(group_id)) is not None:
            return task.summarize()
        return (await self._load(group_id)).summarize()

    async def knows(self, group_id: str) -> bool:
        """Whether the hosted group exists, even if empty. Raises StateLogError."""
        if (task := self._loaded(group_id)) is not None:
            return task.has_group
        return has_group(await self._state_log.read(group_id))

    async def configs(self, group_id: str) -> tuple[ConfigView, ...]:
        """The group's configs; the group need not exist. Raises StateLogError."""
        if (task := self._loaded(group_id)) is not None:
            return task.describe_configs()
        return describe_configs(overrides_in(await self._state_log.read(group_id)), self._config)

    async def group_ids(self) -> tuple[str, ...]:
        """All readable groups in memory or in the log. Raises StateLogError."""
        unreadable = await self._state_log.unreadable_groups()
        known = dict.fromkeys((*self._tasks, *await self._state_log.group_ids()))
        return tuple(each for each in known if each not in unreadable)

    async def idle_group_ids(self) -> tuple[str, ...]:
        """The groups in the log without a running task. Raises StateLogError."""
        group_ids = await self._state_log.group_ids()
        return tuple(each for each in group_ids if each not in self._tasks)

    async def configs_alone(self) -> Collection[str]:
        """The groups that do not exist but have configs. Raises StateLogError."""
        return await self._state_log.configs_alone()

    def quiet_ms(self, group_id: str) -> int:
        """How long ago the group or its configs changed last, also in an earlier process."""
        return self._journal.quiet_ms(group_id)

    async def forget_events(self) -> None:
        """Forget the events of deleted groups whose tasks could not. Raises StateLogError."""
        kept = {*await self._state_log.group_ids(), *await self._state_log.unreadable_groups()}
        for group_id in await self._state_log.told_group_ids():
            if group_id not in kept and group_id not in self._tasks:
                await forget_events(group_id, self._journal, self._state_log)

    async def groups_with_configs(self) -> tuple[str, ...]:
        """The groups that override some config. Raises StateLogError."""
        found = []
        for group_id in await self.group_ids():
            await trio.lowlevel.checkpoint()  # the log may have thousands of groups
            if any(view.override is not None for view in await self.configs(group_id)):
                found.append(group_id)
        return tuple(found)

    def _loaded(self, group_id: str) -> GroupTask | None:
        """The group's task, None if only the log has the group.

        DEV D69: while a group is being loaded, the log describes it, so that one group does not
        hold up a list of all groups. Raises StateLogError if another gateway may own the log.
        """
        if not self.may_answer:
            raise StateLogError("another gateway may own the state log")
        task = self._tasks.get(group_id)
        return task if task is not None and task.is_loaded else None

    async def _load(self, group_id: str) -> GroupEngine:
        engine = GroupEngine(group_id, self._config)
        engine.load(await self._state_log.read(group_id), now_ms=self._clock.now_ms())
        return engine

    def release_waiting(self) -> None:
        """Answer parked requests and park none from now on: the gateway is shutting down."""
        self._is_ending = True
        for task in self._tasks.values():
            task.release_waiting()

    def _task(self, group_id: str, client_host: str | None = None) -> GroupTask:
        task = self._tasks.get(group_id)
        if task is None:
            self._check_room(group_id, client_host)
            task = GroupTask(
                group_id,
                config=self._config,
                topics=TopicsImage(self._cluster),
                resolver=self._resolver,
                state_log=self._state_log,
                clock=self._clock,
                pauses=self.pauses,
                journal=self._journal,
                offsets=self._offsets,
                aside=self._aside,
                log_health=self._log_health,
            )
            if self._is_ending:
                task.release_waiting()
            self._tasks[group_id] = task
            self._room.take(group_id, client_host)
            self._nursery.start_soon(task.run, partial(self._forget, group_id))
        return task

    def _forget(self, group_id: str) -> None:
        del self._tasks[group_id]
        self._room.give_back(group_id)
