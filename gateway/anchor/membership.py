"""The requests that make one static member of a group, and what the coordinator says to them.

When they are sent is for the anchor to say.
"""

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
"""The first that the cluster accepts; long, because our members' own sessions end sooner."""

SOMEBODY_ELSE = frozenset(
    {
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    }
)
"""Answers to a JoinGroup: consumers, a group of another kind under the same name, too many."""


class CoordinatorConnections(Protocol):
    """The way to the coordinators."""

    async def ask(self, node_id: int, message: Struct) -> Any:
        """What is answered at once. Raises UpstreamError."""

    async def ask_patiently(self, node_id: int, message: Struct) -> Any:
        """What may be answered late. Raises UpstreamError."""

    async def versions_of(self, node_id: int) -> Versions:
        """What a broker speaks. Raises UpstreamError."""


class Membership:
    """One static member; remembers where the group's coordinator is, and how long a session may
    be. Everything here raises UpstreamError when the coordinator cannot be asked or does not know;
    it is looked for again the next time."""

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
        """The coordinator as last found."""
        self._session_timeouts_ms = list(SESSION_TIMEOUTS_MS)

    @property
    def session_timeout_ms(self) -> int:
        """How long the coordinator keeps us without a word from us."""
        return self._session_timeouts_ms[0]

    def forget_coordinator(self) -> None:
        """Ask for it before the next request."""
        self.node_id = None

    async def join(self) -> AnchorIds:
        """Become the group's member under a new id, its leader, in a new generation.

        Where a predecessor was, the first JoinGroup only takes its place, in its generation, and
        an old broker keeps that to itself; the second one, under the new id, starts a generation,
        which the coordinator persists. Raises AnchorRefused, AnchorDisplaced.
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
        """Say that we are alive. Raises AnchorDisplaced."""
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
        """Give the group up. Raises AnchorDisplaced if we had lost it already."""
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
            raise AnchorRefused("somebody else is in the group")
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
