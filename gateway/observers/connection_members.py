"""Remembers which group member uses a client connection, from its own successful requests.

An OffsetFetch before version 9 names no member, but every client sends it on the connection that
carries its heartbeats.
"""

from typing import cast

from gateway.data_path.group_apis import GroupRequest
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse

_Asked = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | ConsumerGroupHeartbeatRequest


def note_member(request: GroupRequest, answer: Struct) -> None:
    """Remember the member if its own request, or its join, has succeeded."""
    asked = cast(_Asked, request.message)
    match answer:
        case HeartbeatResponse(error_code=0) | SyncGroupResponse(error_code=0):
            member_id: str | None = asked.member_id
        case (
            ConsumerGroupHeartbeatResponse(error_code=0, member_id=member_id)
            | JoinGroupResponse(error_code=0, member_id=member_id)
        ):
            pass
        case _:
            return
    if member_id:
        request.upstream.member = (asked.group_id, member_id)


def member_of(request: GroupRequest, group_id: str) -> str | None:
    """The id of the group's member on the connection of the request, if one is known."""
    known = request.upstream.member
    return known[1] if known is not None and known[0] == group_id else None
