"""Remembers the upstream coordinator of each group, whose listener serves the group.

Commits travel on the client's own upstream connection, so the client must connect to that listener.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

import trio

from gateway.batches import batches
from gateway.cluster.cluster import Cluster
from gateway.cluster.embedded import is_embedded
from gateway.cluster.errors import UpstreamError
from gateway.cluster.shared_lookups import SharedLookups
from gateway.data_path.conversions import ask_for_coordinators, without_coordinator
from gateway.data_path.errors import BrokerLost
from gateway.data_path.group_apis import GroupRequest
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

ASK_AGAIN_S = 1.0
"""The shortest interval between two lookups for one group, however many clients ask."""
LOOK_PATIENCE_S = 1.0
"""The limit for finding a new coordinator: the member has already waited for the old one."""
FIRST_FIND_VERSION_WITH_BATCHES = 4
REMEMBERED_MAX = 10_000
"""Groups whose coordinator is remembered. Beyond that the oldest lookup is forgotten."""


class Coordinators:
    """Looks up coordinators in the cluster, and remembers them."""

    def __init__(self, cluster: Cluster, names: ShareRule) -> None:
        self._cluster = cluster
        self._nodes: QuotaCache[str, tuple[int, float]] = QuotaCache(REMEMBERED_MAX, names)
        self._lookups: SharedLookups[int] = SharedLookups()
        self._silent_s = -math.inf  # when the other brokers last failed to answer in time

    def is_at_lately(self, group_id: str, request: GroupRequest) -> bool | None:
        """Whether the client is connected to the group's coordinator, by the latest lookup; None if
        the cluster should be asked."""
        known = self._nodes.get(group_id)
        if known is not None and known[0] == request.node_id:
            return True
        if is_embedded(request.upstream.versions):
            return True  # any broker of it will do
        if known is not None and trio.current_time() - known[1] < ASK_AGAIN_S:
            return False
        return None

    def last_known(self, group_id: str) -> int | None:
        """The group's coordinator at the latest lookup, None before the first one."""
        known = self._nodes.get(group_id)
        return known[0] if known is not None else None

    async def find(
        self, request: GroupRequest, message: FindCoordinatorRequest
    ) -> FindCoordinatorResponse:
        """The cluster's answer. A group without an available coordinator keeps the last known one,
        because the engine answers its members without the cluster too."""
        version = request.header.api_version
        is_batch = version >= FIRST_FIND_VERSION_WITH_BATCHES
        keys = message.coordinator_keys if is_batch else (message.key,)
        try:
            answer = await ask_for_coordinators(message, request.upstream, version)
        except BrokerLost:
            answer = _nobody(keys, is_batch=is_batch)
            if message.key_type == CoordinatorType.GROUP:
                await self.nodes_instead(keys, request)
        if message.key_type != CoordinatorType.GROUP:
            return answer
        if is_batch:
            coordinators: list[Coordinator] = []
            for batch in batches(answer.coordinators):
                for coordinator in batch:
                    self._overhear(coordinator.key, coordinator, request.owner)
                    coordinators.append(
                        self._as_before(coordinator.key, coordinator.error_code) or coordinator
                    )
                await trio.lowlevel.checkpoint()
            return replace(answer, coordinators=tuple(coordinators))
        self._overhear(message.key, answer, request.owner)
        if (one := self._as_before(message.key, answer.error_code)) is None:
            return answer
        return FindCoordinatorResponse(node_id=one.node_id, host=one.host, port=one.port)

    def _overhear(
        self, group_id: str, answer: Coordinator | FindCoordinatorResponse, owner: QuotaKey
    ) -> None:
        """Remember what the cluster has told a client, which is about to join there: then its join
        needs no lookup. This neither replaces a lookup nor takes the place of one."""
        has_room = len(self._nodes) < REMEMBERED_MAX
        if not answer.error_code and has_room and group_id not in self._nodes:
            self._nodes.put(group_id, (answer.node_id, -math.inf), owner)

    def _as_before(self, group_id: str, error_code: int) -> Coordinator | None:
        if error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return None
        node_id = self.last_known(group_id)
        if node_id is None:
            return None
        address = self._cluster.addresses.get(node_id)
        if address is None:  # the broker joined after the latest look at the cluster
            return None
        host, port = address
        return Coordinator(key=group_id, node_id=node_id, host=host, port=port)

    async def nodes_instead(
        self, group_ids: Collection[str], request: GroupRequest
    ) -> Mapping[str, int]:
        """The coordinators of these groups while the client's broker is unreachable, as far as they
        are known, in one batch.

        After a lookup that took too long, none is started for a while: otherwise every request of a
        member would wait for its own, and its heartbeats behind them.
        """
        if trio.current_time() - self._silent_s < ASK_AGAIN_S:
            return {}
        with trio.move_on_after(LOOK_PATIENCE_S):
            return await self._look_up(group_ids, doubtful=request.node_id, owner=request.owner)
        self._silent_s = trio.current_time()
        return {}

    async def node_of(self, group_id: str, owner: QuotaKey | None) -> int:
        """Ask the cluster. `owner`: whose request names the group. Raises UpstreamError."""
        return await self._lookups.run(group_id, partial(self._ask_for_node, group_id, owner))

    async def _ask_for_node(self, group_id: str, owner: QuotaKey | None) -> int:
        node_id = await self._cluster.coordinator_of(group_id)
        self._remember(group_id, node_id, owner)
        return node_id

    async def nodes_of(self, group_ids: Collection[str]) -> Mapping[str, int]:
        """The last known coordinator of each group. Unknown ones are looked up in one batch; groups
        whose lookup fails are left out."""
        last = {group_id: self.last_known(group_id) for group_id in group_ids}
        known = {group_id: node for group_id, node in last.items() if node is not None}
        others = [group_id for group_id in group_ids if group_id not in known]
        return {**known, **await self._look_up(others)} if others else known

    async def _look_up(
        self,
        group_ids: Collection[str],
        *,
        doubtful: int | None = None,
        owner: QuotaKey | None = None,
    ) -> Mapping[str, int]:
        outcomes = await self._cluster.coordinators_of(group_ids, doubtful=doubtful)
        nodes = {
            group_id: node
            for group_id, node in outcomes.items()
            if not isinstance(node, UpstreamError)
        }
        for group_id, node_id in nodes.items():
            self._remember(group_id, node_id, owner)
        return nodes

    def _remember(self, group_id: str, node_id: int, owner: QuotaKey | None) -> None:
        self._nodes.put(group_id, (node_id, trio.current_time()), owner)


def _nobody(keys: Iterable[str], *, is_batch: bool) -> FindCoordinatorResponse:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not is_batch:
        return FindCoordinatorResponse(error_code=code, node_id=-1, port=-1)
    return without_coordinator(keys, code)
