"""Releases of hosted groups that a setting leaves to the cluster (`groups_forward`).

The setting is only a wish: a group stays hosted until its release is over, because its members may
hold partitions. One that cannot be released is tried again, until its members or the cluster have
changed.
"""

from collections.abc import Awaitable, Callable, Iterable

import structlog
import trio

from gateway.groups.group_drivers import GroupRefused
from gateway.hosting.move_requests import ReleaseOutcome
from gateway.state_log.log import StateLogError

RELEASES_MAX = 20
"""How many groups are released at a time."""
RETRY_S = 30.0
"""The delay before a group is tried again. Each attempt asks the group's coordinator whether it has
the new protocol."""

log = structlog.get_logger()


class ConfiguredReleases:
    """The releases that the settings ask for."""

    def __init__(
        self,
        release: Callable[[str], Awaitable[ReleaseOutcome]],
        is_kept: Callable[[str], bool],
    ) -> None:
        """`release` may raise StateLogError. `is_kept`: whether a group is still hosted against its
        setting, and the gateway runs on."""
        self._release = release
        self._is_kept = is_kept
        self.obstacles: dict[str, str] = {}
        """Why a group could not be released, by its id."""

    async def run(self, group_ids: Iterable[str]) -> None:
        """Release these groups, as far as they are kept."""
        limiter = trio.CapacityLimiter(RELEASES_MAX)
        async with trio.open_nursery() as nursery:
            for group_id in group_ids:
                if self._is_kept(group_id):
                    nursery.start_soon(self._release_one, group_id, limiter)

    async def _release_one(self, group_id: str, limiter: trio.CapacityLimiter) -> None:
        while self._is_kept(group_id):
            async with limiter:
                obstacle = await self._attempt(group_id)
            if not obstacle:
                log.info("group_released_by_setting", group_id=group_id, setting="groups_forward")
                break
            if obstacle != self.obstacles.get(group_id) and self._is_kept(group_id):
                log.warning("group_stays_hosted", group_id=group_id, reason=obstacle)
            self.obstacles[group_id] = obstacle
            await trio.sleep(RETRY_S)
        self.obstacles.pop(group_id, None)

    async def _attempt(self, group_id: str) -> str:
        """Why the group could not be released; empty if it was."""
        try:
            outcome = await self._release(group_id)
        except (StateLogError, GroupRefused) as error:
            return str(error)
        return "" if outcome.is_released else "; ".join(outcome.reasons)
