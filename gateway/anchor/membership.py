"""The requests of one static member, and the coordinator's answers. The anchor decides when to send
them."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from gateway.anchor.errors import ABOUT_THE_ANCHOR, AnchorDisplaced, AnchorRefused, name_of
from gateway.anchor.identity import INSTANCE_ID, PROTOCOL_TYPE, AnchorIds, Gateway
from gateway.cluster.broker_connection import Versions
from gateway.cluster.errors import UpstreamError
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import (
    FIRST_LEAVE_VERSION_WITH_MEMBERS,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest

SESSION_TIMEOUTS_MS = (60_000, 45_000, 30_000, 10_000)
"""Tried in this order until the cluster accepts one. Long, because the sessions of the group's real
members expire sooner."""

SOMEBODY_ELSE = frozenset(
    {
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    }
)
"""Answers to a JoinGroup: the group has consumers, is of another kind, or is full."""


class CoordinatorConnections(Protocol):
    """Access to the coordinators."""

    async def ask(self, node_id: int, message: Struct) -> Any:
        """Send a request that brokers answer promptly. Raises UpstreamError."""

    async def ask_patiently(self, node_id: int, message: Struct) -> Any:
        """Send a request that a broker may park. Raises UpstreamError."""

    async def versions_of(self, node_id: int) -> Versions:
        """The API versions of a broker. Raises UpstreamError."""


class Membership:
    """One static member. Remembers the group's coordinator and the accepted session timeout.

    All requests raise UpstreamError if the coordinator is unreachable or has moved; the next
    request looks for it again.
    """

    def __init__(
        self,
        group_id: str,
        *,
        gateway: Gateway,
        connections: CoordinatorConnections,
        coordinator_of: Callable[[str], Awaitable[int]],
    ) -> None:
        self.group_id = group_id
        self._gateway = gateway
        self._connections = connections
        self._coordinator_of = coordinator_of
        self.node_id: int | None = None
        """The last known coordinator."""
        self._session_timeouts_ms = list(SESSION_TIMEOUTS_MS)

    @property
    def session_timeout_ms(self) -> int:
        """How long the coordinator keeps a silent member."""
        return self._session_timeouts_ms[0]

    def forget_coordinator(self) -> None:
        """Look up the coordinator before the next request."""
        self.node_id = None

    async def join(self) -> AnchorIds:
        """Join under a new member id, as leader of a new generation.

        If there was a predecessor, the first JoinGroup only takes its place in its generation,
        which an old broker does not persist. The second one, under the new id, starts a generation
        that the coordinator persists. Raises AnchorRefused, AnchorDisplaced.
        """
        joined = await self._join("")
        if joined.skip_assignment or joined.leader != joined.member_id:
            joined = await self._join(joined.member_id)
        if joined.leader != joined.member_id:
            raise AnchorRefused(f"{joined.leader} leads the group")
        return AnchorIds(member_id=joined.member_id, generation=joined.generation_id)

    async def sync(self, ids: AnchorIds) -> None:
        """Complete the generation. Raises AnchorDisplaced."""
        await self._ask(
            "SyncGroup",
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=ids.generation,
                member_id=ids.member_id,
                group_instance_id=INSTANCE_ID,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=self._gateway.log_id,
                assignments=(SyncGroupAssignment(member_id=ids.member_id, assignment=b""),),
            ),
        )

    async def beat(self, ids: AnchorIds) -> None:
        """Send a heartbeat. Raises AnchorDisplaced."""
        await self._ask(
            "Heartbeat",
            HeartbeatRequest(
                group_id=self.group_id,
                generation_id=ids.generation,
                member_id=ids.member_id,
                group_instance_id=INSTANCE_ID,
            ),
        )

    async def leave(self, ids: AnchorIds) -> None:
        """Leave the group. Raises AnchorDisplaced if it was lost already."""
        versions = await self._connections.versions_of(await self._coordinator())
        if versions[ApiKey.LEAVE_GROUP][1] < FIRST_LEAVE_VERSION_WITH_MEMBERS:
            request = LeaveGroupRequest(group_id=self.group_id, member_id=ids.member_id)
        else:
            member = MemberIdentity(member_id=ids.member_id, group_instance_id=INSTANCE_ID)
            request = LeaveGroupRequest(group_id=self.group_id, members=(member,))
        answer: LeaveGroupResponse = await self._ask("LeaveGroup", request)
        for left in answer.members:
            self._check("LeaveGroup", left.error_code)

    async def _join(self, member_id: str) -> JoinGroupResponse:
        while True:
            node_id = await self._coordinator()
            answer: JoinGroupResponse = await self._connections.ask_patiently(
                node_id,
                JoinGroupRequest(
                    group_id=self.group_id,
                    session_timeout_ms=self.session_timeout_ms,
                    rebalance_timeout_ms=self.session_timeout_ms,
                    member_id=member_id,
                    group_instance_id=INSTANCE_ID,
                    protocol_type=PROTOCOL_TYPE,
                    protocols=(
                        JoinGroupProtocol(
                            name=self._gateway.log_id, metadata=self._gateway.run_id.encode()
                        ),
                    ),
                    reason="groupferry hosts this group",
                ),
            )
            too_long = answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
            if not too_long or len(self._session_timeouts_ms) == 1:
                break
            del self._session_timeouts_ms[0]
        if answer.error_code in SOMEBODY_ELSE:
            raise AnchorRefused("another member is in the group")
        self._check("JoinGroup", answer.error_code)
        return answer

    async def _ask(self, api: str, message: Struct) -> Any:
        answer = await self._connections.ask(await self._coordinator(), message)
        self._check(api, answer.error_code)
        return answer

    async def _coordinator(self) -> int:
        if self.node_id is None:
            self.node_id = await self._coordinator_of(self.group_id)
        return self.node_id

    def _check(self, api: str, error_code: int) -> None:
        if error_code in ABOUT_THE_ANCHOR:
            raise AnchorDisplaced(api, ErrorCode(error_code))
        if error_code:
            raise UpstreamError(f"{api} of the anchor was answered with {name_of(error_code)}")
