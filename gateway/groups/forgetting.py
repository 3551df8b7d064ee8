"""Forgets what nobody uses any more: empty groups that the cluster has forgotten, and configs of
names that no group has.

Must not know where either is stored.
"""

import random
from collections.abc import Callable

import structlog
import trio

from coordinator.events import (
    ConfigChange,
    ConfigOperation,
    ConfigsReceived,
    DeleteGroupReceived,
    Request,
)
from coordinator.group_configs import KEYS
from coordinator.topics import Topics
from gateway.groups.group_task import GroupFailed
from gateway.groups.hosting import LOOKED_AT_ONCE_MAX, Hosting
from gateway.groups.registry import Registry
from gateway.groups.room import TooManyGroups
from gateway.state_log.log import StateLogError
from kafka_codecs.error_codes import ErrorCode

log = structlog.get_logger()

LOOK_INTERVAL_S = 24 * 60 * 60.0
"""How often the cluster is asked what it has forgotten; it keeps offsets for days (Kafka's
`offsets.retention.minutes`)."""
FIRST_LOOK_S = (5 * 60.0, 15 * 60.0)
"""When it is asked first, at random in between: also a gateway that is restarted every day forgets,
and gateways that are started together do not ask together."""
LOOKS_WITHOUT_GROUP = 7
"""Configs of a name are forgotten when so many looks in a row found no group of that name, in the
cluster neither: they may be set before the first member comes."""


class Forgetting:
    """`run` looks soon after the start, and then once a day."""

    def __init__(
        self, registry: Registry, hosting: Hosting, is_held: Callable[[str], bool]
    ) -> None:
        """`is_held`: whether a group's anchor is here."""
        self._registry = registry
        self._hosting = hosting
        self._is_held = is_held
        self._looks: dict[str, int] = {}
        """How many looks in a row found no group for these configs."""

    async def run(self) -> None:
        """Look for ever."""
        await trio.sleep(random.uniform(*FIRST_LOOK_S))  # noqa: S311
        while True:
            try:
                await self.look()
            except (StateLogError, TooManyGroups, GroupFailed) as error:
                log.warning("forgetting_postponed", reason=str(error))
            await trio.sleep(LOOK_INTERVAL_S)

    async def look(self) -> None:
        """Forget what is to be forgotten now. Raises StateLogError, TooManyGroups, GroupFailed."""
        alone = frozenset(await self._registry.configs_alone())
        idle = [each for each in await self._registry.idle_group_ids() if not self._is_held(each)]
        looks: dict[str, int] = {}
        groups = 0
        for start in range(0, len(idle), LOOKED_AT_ONCE_MAX):
            some = idle[start : start + LOOKED_AT_ONCE_MAX]
            for group_id in await self._hosting.forgotten(some):
                if group_id not in alone:
                    groups += await self._ask(group_id, _deletion)
                elif (count := self._looks.get(group_id, 0) + 1) < LOOKS_WITHOUT_GROUP:
                    looks[group_id] = count
                else:
                    await self._ask(group_id, _reset)
        self._looks = looks
        if groups:
            log.info("groups_forgotten", groups=groups)

    async def _ask(self, group_id: str, make: Callable[[int, Topics], Request]) -> bool:
        _token, reply = await self._registry.ask(group_id, make)
        return reply.error is ErrorCode.NONE  # somebody may have joined meanwhile


def _deletion(token: int, _topics: Topics) -> DeleteGroupReceived:
    return DeleteGroupReceived(token=token)


def _reset(token: int, _topics: Topics) -> ConfigsReceived:
    changes = (
        ConfigChange(name=name, operation=ConfigOperation.DELETE, value=None) for name in KEYS
    )
    return ConfigsReceived(token=token, changes=tuple(changes))
