"""Deletes unused state: empty groups that the cluster has forgotten, configs of groups that do not
exist, and the last events of deleted groups.
"""

import random
from collections.abc import Callable

import structlog
import trio

from coordinator.handlers.group_configs import KEYS
from coordinator.interface.events import (
    ConfigChange,
    ConfigOperation,
    ConfigsReceived,
    DeleteGroupReceived,
    Request,
)
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Topics
from gateway.batches import batches
from gateway.groups.cluster_group_reader import GROUPS_PER_LOOKUP_MAX, ClusterGroupReader
from gateway.groups.group_drivers import GroupFailed, GroupRefused
from gateway.groups.groups import Groups
from gateway.quotas.quota_cache import weight
from gateway.state_log.log import StateLogError
from kafka_codecs.error_codes import ErrorCode

log = structlog.get_logger()

LOOK_INTERVAL_S = 24 * 60 * 60.0
"""How often to ask the cluster which groups it has forgotten. It keeps offsets for days (Kafka's
`offsets.retention.minutes`)."""
NEW_GROUPS_MAX, COUNT_INTERVAL_S = 1_000, 10 * 60.0
"""So many more empty groups than the last scan has left lead to another scan, and how often they
are counted: a client may begin groups all day. The cluster looks for groups without members and
offsets as often (Kafka's `offsets.retention.check.interval.ms`)."""
FIRST_LOOK_S = (5 * 60.0, 15 * 60.0)
"""The first scan happens at random within this range. It is early enough for a gateway that is
restarted every day, and spread so that gateways started together do not ask together."""
UNUSED_MS_MAX = 7 * 24 * 60 * 60 * 1000
"""Adopted groups without members and offsets, and configs without a group, here or in the cluster,
are deleted this long after the last change: an operator may give both commands before the first
member joins."""


class Forgetting:
    """Checks all empty groups soon after the start, then once a day or after many new groups. If
    the cluster or the log does not answer completely, the next count repeats the check."""

    def __init__(self, groups: Groups, reader: ClusterGroupReader) -> None:
        self._groups = groups
        self._reader = reader
        self._left = 0
        """Empty groups after the last scan, by the `weight` of their names."""
        self._is_complete = False
        """Whether the last scan has learned of every group."""

    async def run(self) -> None:
        """Check the groups periodically until cancelled."""
        await trio.sleep(random.uniform(*FIRST_LOOK_S))  # noqa: S311
        while True:
            try:
                await self.delete_unused()
            except (StateLogError, GroupRefused, GroupFailed) as error:
                log.warning("forgetting_postponed", reason=str(error))
            with trio.move_on_after(LOOK_INTERVAL_S):
                await trio.sleep(COUNT_INTERVAL_S)
                while self._is_complete and not await self._is_crowded():
                    await trio.sleep(COUNT_INTERVAL_S)

    async def _is_crowded(self) -> bool:
        try:
            idle = await self._groups.views.idle_group_ids()
            return sum(map(weight, idle)) >= self._left + NEW_GROUPS_MAX
        except StateLogError:
            return False

    async def delete_unused(self) -> None:
        """Delete what is unused now. Raises StateLogError, GroupRefused, GroupFailed."""
        self._is_complete = False
        await self._groups.forget_events()
        alone = frozenset(await self._groups.views.configs_alone())
        idle = await self._groups.views.idle_group_ids()
        groups = answered = 0
        left = sum(map(weight, idle))
        for batch in batches(idle, GROUPS_PER_LOOKUP_MAX):
            traces = await self._reader.find_traces(batch)
            answered += len(traces)
            for group_id in [name for name, has_trace in traces.items() if not has_trace]:
                is_recent = self._groups.views.quiet_ms(group_id) < UNUSED_MS_MAX
                if self._groups.drivers.is_adopted(group_id) and is_recent:
                    continue
                if group_id not in alone:
                    is_deleted = await self._ask(group_id, _deletion)
                    groups += is_deleted
                    left -= is_deleted * weight(group_id)
                elif not is_recent:
                    await self._ask(group_id, _reset)
        self._left = left
        self._is_complete = answered == len(idle)
        if groups:
            log.info("groups_forgotten", groups=groups)

    async def _ask(self, group_id: str, make: Callable[[int, Topics], Request]) -> bool:
        reply = await self._groups.drivers.ask(group_id, make)
        return reply.error is ErrorCode.NONE  # a member may have joined since the scan


def _deletion(token: int, _topics: Topics) -> DeleteGroupReceived:
    return DeleteGroupReceived(token=token)


def _reset(token: int, _topics: Topics) -> ConfigsReceived:
    changes = (
        ConfigChange(name=name, operation=ConfigOperation.DELETE, value=None) for name in KEYS
    )
    return ConfigsReceived(
        token=token,
        changes=tuple(changes),
        policy=RollMode.AS_CONFIGURED,
        announces_roll=False,
    )
