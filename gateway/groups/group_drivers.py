"""The drivers of the hosted groups, and what is known of groups without one.

A group has a driver while anything of it is in memory: from its first request, or from the start of
the gateway if the log has members of it, until its machine is idle. Nothing else changes the group.
Without a driver, a group is what the log has of it, and what the cluster has said of it lately.
"""

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from coordinator.engine import GroupEngine
from coordinator.group.load import (
    has_group,
)
from coordinator.interface.records import DurableRecord
from coordinator.interface.replies import GroupView, Reply
from coordinator.interface.roll_policy import RollMode
from gateway.groups.group_driver import GroupDriver
from gateway.groups.group_limits import TooManyGroups
from gateway.groups.group_work import Services
from gateway.groups.relayed_calls import RelayedCalls
from gateway.hosting.answers import GroupApi, RefusalReason
from gateway.hosting.calls import (
    Answer,
    Call,
    MakeRequest,
    Refused,
    Released,
    Unanswerable,
)
from gateway.hosting.group import HostedGroup
from gateway.hosting.group_routing import GroupRouting
from gateway.hosting.inputs import Ending, Resumed
from gateway.hosting.rules import HostingRules
from gateway.hosting.states import LogPhase
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.state_log.log import StateLogError
from kafka_codecs.describe_groups import DescribedGroup

REMEMBERED_MAX = 10_000
"""Groups whose routing in the cluster is remembered."""
SPREAD = 0.2
"""Random share of the interval between an anchor's heartbeats."""


class GroupRefused(Exception):
    """The gateway refuses a request; the situation says which code the client gets."""

    def __init__(self, cause: RefusalReason, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason


class GroupFailed(Exception):
    """A bug in the gateway: the request could not even be refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleGroup:
    """What lists show of a hosted group that is only in the log."""

    view: GroupView
    policy: RollMode


class GroupDrivers:
    """Makes a driver at the first request of a group, and forgets it when nothing of the group is
    in memory."""

    def __init__(self, rules: HostingRules, services: Services) -> None:
        self._rules = rules
        self._services = services
        self._state_log = services.state_log
        self._clock = services.clock
        self.by_id: dict[str, GroupDriver] = {}
        self.routings: QuotaCache[str, GroupRouting] = QuotaCache(REMEMBERED_MAX, rules.names)
        """What the cluster has said of groups without a driver."""
        self.idle: dict[str, IdleGroup] = {}
        """Hosted groups of the log that an operator has looked at. Only a driver changes a group,
        so they stay as they are until they have one."""
        self.unresumed: set[str] = set()
        """The groups of the log that may have members, and have not been loaded."""
        self._relayed: WeakValueDictionary[str, RelayedCalls] = WeakValueDictionary()
        """The calls that the cluster answers, by group, for groups with such calls or a driver."""
        self.resumed = self.left_out = 0
        """How many groups were loaded at the start, and how many had no room."""
        self.is_ending = False
        self.owns: Callable[[str], bool] = lambda _group_id: True
        """Whether this process may have the group; in a fleet, others may."""

    async def ask(
        self,
        group_id: str,
        make: MakeRequest,
        topic_names: Iterable[str] = (),
        *,
        api: GroupApi = GroupApi.ADMIN,
        owner: QuotaKey | None = None,
    ) -> Reply:
        """Ask the engine of a group that is known to be hosted. `topic_names` are the topics that
        `make` looks up. Raises GroupRefused, GroupFailed."""
        call = Call(
            api=api,
            make=make,
            topic_names=frozenset(topic_names),
            owner=owner,
            is_placed=True,
        )
        return require_reply(await self.driver(group_id, owner).ask(call))

    async def drop_anchor(self, group_id: str) -> None:
        """Have the anchor leave an empty group. Raises GroupRefused."""
        answer = await self.driver(group_id).ask(Call(api=GroupApi.ADMIN, is_placed=True))
        if not isinstance(answer, Released):
            require_reply(answer)

    def is_live(self, group_id: str) -> bool:
        """Whether the group has members here."""
        driver = self.by_id.get(group_id)
        return driver is not None and driver.group.is_live

    def may_be_live(self, group_id: str) -> bool:
        """Whether the group has members here, or may have: its log is being read, or cannot be, or
        it changes its coordinator."""
        driver = self.by_id.get(group_id)
        if driver is None:
            return self.is_moving(group_id)
        is_unread = driver.group.engine.phase in (LogPhase.LOADING, LogPhase.UNREADABLE)
        return is_unread or driver.group.is_live or driver.group.is_moving

    def is_held(self, group_id: str) -> bool:
        """Whether this gateway has an anchor for the group, Stable or not."""
        driver = self.by_id.get(group_id)
        return driver is not None and driver.group.anchor.is_here

    def is_moving(self, group_id: str) -> bool:
        """Whether the group may be about to change its coordinator."""
        if group_id in self.unresumed:
            return self._state_log.may_be_moving(group_id)
        driver = self.by_id.get(group_id)
        return driver is not None and driver.group.is_moving

    def is_ours(self, description: DescribedGroup) -> bool:
        """Whether the group's only member in the cluster is an anchor with our state log."""
        return self.get_routing(description.group_id).is_ours(description)

    def belongs_to_cluster(self, group_id: str) -> bool:
        """Whether the cluster answers for the group, as far as known."""
        return not self.may_be_live(group_id) and self.get_routing(group_id).is_forwarded

    def is_adopted(self, group_id: str) -> bool:
        """Whether the group is hosted also while it is empty, until an operator releases it."""
        return self.get_routing(group_id).is_adopted

    def needs_driver(self, group_id: str) -> bool:
        """Whether anything of the group is in memory, or has to be loaded."""
        return group_id in self.by_id or group_id in self.unresumed

    def relaying(self, group_id: str, call: Call) -> AbstractContextManager[None]:
        """While the cluster answers the call, the group is not adopted."""
        return self._relayed_calls(group_id).under_way(call)

    def _relayed_calls(self, group_id: str) -> RelayedCalls:
        calls = self._relayed.get(group_id)
        if calls is None:
            calls = self._relayed[group_id] = RelayedCalls()
        return calls

    @property
    def may_answer(self) -> bool:
        """Whether no other gateway may own any of the log."""
        return self._state_log.may_answer

    def may_answer_for(self, group_id: str) -> bool:
        """Whether the group's decisions may be told: false once another gateway may own its log."""
        return self._state_log.may_answer_for(group_id)

    async def knows(self, group_id: str) -> bool:
        """Whether the hosted group exists, even if empty. Raises StateLogError."""
        if (driver := self.find_loaded(group_id)) is not None:
            return driver.group.engine.core.state.group is not None
        return has_group(await self._state_log.read(group_id))

    def find_loaded(self, group_id: str) -> GroupDriver | None:
        """The group's driver, None if only the log has the group.

        DEV D69: while a group is being loaded, the log describes it, so that one group does not
        hold up a list of all groups. Raises StateLogError if another gateway may own the log.
        """
        if not self.may_answer_for(group_id):
            raise StateLogError("another gateway may own the state log")
        driver = self.by_id.get(group_id)
        return driver if driver is not None and driver.group.engine.is_loaded else None

    def engine_of(self, group_id: str, records: Sequence[DurableRecord]) -> GroupEngine:
        engine = GroupEngine(group_id, self._rules.config_of(group_id))
        engine.load(records, now_ms=self._clock.now_ms())
        return engine

    def driver(self, group_id: str, owner: QuotaKey | None = None) -> GroupDriver:
        """The driver of a group; it is kept as long as anything of the group is in memory.
        `owner`: whose request names the group. Raises GroupRefused if another process has it."""
        driver = self.by_id.get(group_id)
        if driver is None:
            if not self.owns(group_id):
                cause = RefusalReason.NOT_AT_COORDINATOR
                raise GroupRefused(cause, "another process of the gateway has the group")
            self.idle.pop(group_id, None)
            group = HostedGroup(
                self.remember_routing(group_id, owner),
                spread=random.uniform(1 - SPREAD, 1 + SPREAD),  # noqa: S311
            )
            driver = GroupDriver(
                group,
                self._services,
                relayed=self._relayed_calls(group_id),
                forget=self._forget,
                owner=owner,
            )
            self.by_id[group_id] = driver
            if group_id in self.unresumed and self.has_room(group_id):
                driver.feed(Resumed(self._state_log.may_be_moving(group_id)))
                self.resumed += 1
            self.unresumed.discard(group_id)
            if self.is_ending:
                driver.feed(Ending())
        return driver

    def drop(self, concerns: Callable[[str], bool]) -> None:
        """Forget groups that another process takes over, and end what is under way."""
        rules = self._rules
        self._services.limits.log_health.forget(concerns)
        for group_id in tuple(filter(concerns, self.by_id)):
            self.by_id.pop(group_id).close()
        for group_id in tuple(filter(concerns, self.idle)):
            del self.idle[group_id]
        for group_id in tuple(filter(concerns, self.routings)):
            self.routings.pop(group_id)
        for names in (rules.adopted, rules.released, rules.adopting):
            names.difference_update([name for name in names if concerns(name)])

    def in_memory(self, group_id: str) -> GroupDriver | None:
        """The driver of a group if anything of the group is in memory."""
        return self.by_id.get(group_id)

    def _forget(self, driver: GroupDriver) -> None:
        """The next request gets another driver: two of one group would serve it twice."""
        if not self.is_ending:
            driver.is_closed = True
            del self.by_id[driver.group.group_id]

    def get_routing(self, group_id: str) -> GroupRouting:
        """What is known of a group in the cluster."""
        if (driver := self.by_id.get(group_id)) is not None:
            return driver.group.routing
        return self.routings.get(group_id) or GroupRouting(group_id, self._rules)

    def remember_routing(self, group_id: str, owner: QuotaKey | None) -> GroupRouting:
        """What is known of a group in the cluster, remembered from now on. If there are too many,
        the oldest is forgotten, and looked up again when needed."""
        routing = self.get_routing(group_id)
        if group_id not in self.by_id:
            self.routings.put(group_id, routing, owner)
        return routing

    def has_room(self, group_id: str) -> bool:
        """A group that is about to change its coordinator needs no room: until it has, the cluster
        must not answer for it."""
        if self._state_log.may_be_moving(group_id):
            return True
        try:
            self._services.limits.hosted.check(None)
        except TooManyGroups:
            self.left_out += 1
            return False
        return True

    def hosted_ids(self) -> Collection[str]:
        """The groups that have members or an anchor here, or may have once they are loaded."""
        return self.unresumed | {
            group_id
            for group_id in self.by_id
            if self.is_live(group_id) or self.is_held(group_id) or self.is_moving(group_id)
        }


def require_reply(answer: Answer) -> Reply:
    """The engine's reply. Raises GroupRefused, GroupFailed for anything else."""
    if isinstance(answer, Refused):
        raise GroupRefused(answer.cause, answer.reason)
    if isinstance(answer, Unanswerable):
        raise GroupFailed
    if isinstance(answer, Reply):
        return answer
    raise TypeError(f"{answer} is no reply of the engine")
