"""Asks the broker that coordinates a group in the cluster, for its anchor and for its moves."""

from collections.abc import Awaitable, Callable
from typing import cast

from gateway.cluster.errors import UpstreamError
from gateway.hosting.effects import Ask, AskCoordinator
from gateway.hosting.inputs import Done, Failed, Input
from gateway.quotas.quota_key import QuotaKey
from gateway.state_log.log import StateLog
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode, name_of
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.sync_group import SyncGroupRequest

_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
"""The broker has done nothing: it is not the coordinator, or not yet."""

CoordinatorOf = Callable[[str, QuotaKey | None], Awaitable[int]]
"""The node id of a group's coordinator. Raises UpstreamError."""
AskCoordinatorNode = Callable[[int, Struct], Awaitable[Struct]]
"""A coordinator's answer to a request of the gateway. Raises UpstreamError."""


class GroupCoordinator:
    """Remembers the coordinator of one group as long as it answers as such."""

    def __init__(
        self,
        group_id: str,
        coordinator_of: CoordinatorOf,
        ask_node: AskCoordinatorNode,
        state_log: StateLog,
    ) -> None:
        self._group_id = group_id
        self._coordinator_of = coordinator_of
        self._ask_node = ask_node
        self._state_log = state_log
        self._node_id: int | None = None

    async def ask_for_anchor(self, effect: AskCoordinator) -> Input:
        """What came of a request of the anchor."""
        takes_place = isinstance(effect.message, JoinGroupRequest | SyncGroupRequest)
        if takes_place and not self._state_log.may_answer_for(self._group_id):
            # The anchor of the next owner would lose its place, and commits of members that were
            # fenced there would be stored under this one's ids.
            return Failed(effect, "another gateway may own the state log")
        if effect.looks_up:
            self._node_id = None
        try:
            return Done(effect, await self._ask(effect.message))
        except UpstreamError as error:
            return Failed(effect, str(error))

    async def ask_for_move(self, effect: Ask) -> Input:
        """What came of a request of an adoption or a release."""
        if not self._state_log.may_answer_for(self._group_id):
            return Failed(effect, "another gateway may continue the adoption")
        try:
            answer = await self._ask(effect.message)
            code = cast(int, getattr(answer, "error_code", ErrorCode.NONE))
            if code not in _MOVED:
                return Done(effect, answer)
            reason = name_of(code)
        except UpstreamError as error:
            reason = str(error)
        self._node_id = None  # another coordinator may have the group now
        return Failed(effect, reason)

    async def _ask(self, message: Struct) -> Struct:
        """The answer of the group's coordinator. Raises UpstreamError."""
        if self._node_id is None:
            self._node_id = await self._coordinator_of(self._group_id, None)
        return await self._ask_node(self._node_id, message)
