"""Matches the regular expressions of groups against the names of all topics of the cluster.

It may take seconds, so it happens in a thread, beside the group. DESCRIBE permissions of the
principal that subscribes are not looked at: the names are those that the gateway itself may see.
"""

from collections.abc import Collection

import structlog
import trio

from coordinator.events import RegexesResolved
from coordinator.topic_regex import match_topics
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError

log = structlog.get_logger()

RESOLUTIONS_AT_ONCE_MAX = 2
"""Threads that match; the resolutions of other groups wait."""


class RegexResolver:
    """One for all groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._limiter = trio.CapacityLimiter(RESOLUTIONS_AT_ONCE_MAX)

    async def resolve(self, group_id: str, regexes: Collection[str]) -> RegexesResolved:
        """What they match now, topics included that the gateway knew nothing of but the name."""
        try:
            names = (await self._cluster.names.get()).values()
            version = self._cluster.names.version
            matched = await trio.to_thread.run_sync(
                match_topics, regexes, tuple(names), abandon_on_cancel=True, limiter=self._limiter
            )
            await self._cluster.topics_for(frozenset().union(*matched.values()))
        except UpstreamError as error:
            log.warning("regexes_unresolved", group_id=group_id, reason=str(error))
            return RegexesResolved(topics=None)
        return RegexesResolved(topics=matched, version=version)
