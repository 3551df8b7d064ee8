"""Remembers which group member uses a client connection, from its own successful requests.

An OffsetFetch before version 9 names no member, but every client sends it on the connection that
carries its heartbeats.
"""

from weakref import WeakKeyDictionary

from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.upstream import Upstream
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse


class ConnectionMembers:
    """Sees each request and its answer, and remembers the latest member of each connection."""

    def __init__(self) -> None:
        self._members: WeakKeyDictionary[Upstream, tuple[str, str]] = WeakKeyDictionary()

    def note(self, request: GroupRequest, answer: Struct) -> None:
        """Remember the member if the request succeeded."""
        match request.message, answer:
            case (
                (JoinGroupRequest(group_id=group_id), JoinGroupResponse(error_code=0) as said)
                | (
                    SyncGroupRequest(group_id=group_id) as said,
                    SyncGroupResponse(error_code=0),
                )
                | (
                    HeartbeatRequest(group_id=group_id) as said,
                    HeartbeatResponse(error_code=0),
                )
                | (
                    ConsumerGroupHeartbeatRequest(group_id=group_id),
                    ConsumerGroupHeartbeatResponse(error_code=0) as said,
                )
            ):
                if said.member_id:
                    self._members[request.upstream] = (group_id, said.member_id)
            case _:
                pass

    def member_of(self, request: GroupRequest, group_id: str) -> str | None:
        """The id of the group's member on the connection of the request, if one is known."""
        known = self._members.get(request.upstream)
        return known[1] if known is not None and known[0] == group_id else None
