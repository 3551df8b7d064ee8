"""Which listener a group belongs to: that of its upstream coordinator.

Commits travel on the client's own upstream connection, so a client must be at that listener. Must
not know which groups are hosted.
"""

import trio

from gateway.cluster.cluster import Cluster

ASK_AGAIN_S = 1.0
"""A group's coordinator is asked for at most this often, however many clients are elsewhere."""
REMEMBERED_MAX = 10_000
"""Groups whose coordinator is remembered; of the one asked for longest ago it is forgotten."""


class Coordinators:
    """Remembers the coordinator of each group that was asked about."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: dict[str, tuple[int, float]] = {}

    async def is_at(self, group_id: str, node_id: int) -> bool:
        """Whether the group's coordinator is this broker. Raises UpstreamError if unknown."""
        known = self._nodes.get(group_id)
        if known is not None and known[0] == node_id:
            return True
        if known is not None and trio.current_time() - known[1] < ASK_AGAIN_S:
            return False
        return await self.node_of(group_id) == node_id

    def last_known(self, group_id: str) -> int | None:
        """Where the group's coordinator was when somebody last asked, None if nobody did."""
        known = self._nodes.get(group_id)
        return known[0] if known is not None else None

    async def node_of(self, group_id: str) -> int:
        """Ask the cluster. Raises UpstreamError."""
        node_id = await self._cluster.coordinator_of(group_id)
        self._nodes.pop(group_id, None)  # the newest comes last
        self._nodes[group_id] = (node_id, trio.current_time())
        if len(self._nodes) > REMEMBERED_MAX:
            del self._nodes[next(iter(self._nodes))]
        return node_id
