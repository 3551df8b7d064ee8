"""A commit that the engine has accepted, on its way to the cluster and back.

It travels on the client's own connection as a commit of the anchor's. What the cluster says against
the anchor is for the anchor to repair, not for the client to hear. Must not know why the commit was
accepted.
"""

from dataclasses import replace

import trio

from coordinator.errors import ErrorCode
from coordinator.events import OffsetCommitEnded
from coordinator.volatile import Token
from gateway.anchor.anchors import MEMBER_PATIENCE_S, Anchors
from gateway.anchor.errors import ABOUT_THE_ANCHOR, AnchorDisplaced, NotAnchored
from gateway.anchor.identity import (
    FIRST_COMMIT_VERSION,
    FIRST_TXN_COMMIT_VERSION,
    INSTANCE_ID,
    AnchorIds,
)
from gateway.data_path.errors import UpstreamAway
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.commit_parts import CommitRequest, CommitResponse
from gateway.groups.forwarding import forward, highest_version
from gateway.groups.refusals import refusal
from gateway.groups.registry import Registry
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest


async def store(
    request: GroupRequest,
    message: CommitRequest,
    commit: Token,
    *,
    registry: Registry,
    anchors: Anchors,
) -> Struct:
    """The cluster's answer. Its group learns in any case how the commit ended: it holds back the
    partitions. Raises UpstreamLost."""
    group_id = message.group_id
    give_up_s = trio.current_time() + MEMBER_PATIENCE_S
    ids: AnchorIds | None = None
    why = ""
    is_on_its_way = False
    try:
        while (patience_s := give_up_s - trio.current_time()) > 0:
            is_a_members = message.member_id or registry.is_live(group_id)
            if is_a_members or await anchors.is_there(group_id):
                ids = await _held(request, group_id, anchors, patience_s)
            is_on_its_way = True
            answer = await _send(request, message, ids)
            is_on_its_way = False
            codes = {p.error_code for topic in answer.topics for p in topic.partitions}
            if ErrorCode.NOT_COORDINATOR in codes:
                anchors.look_around(group_id)
            displaced = codes & ABOUT_THE_ANCHOR
            if ids is None or not displaced:
                return answer
            error = AnchorDisplaced("a commit", ErrorCode(min(displaced)))
            anchors.doubt(group_id, ids, error)
            why = str(error)
    except NotAnchored as error:
        why = str(error)
    except UpstreamAway:
        is_on_its_way = False
        raise
    finally:
        if is_on_its_way:
            anchors.commit_lost(group_id, ids, commit)
        else:
            registry.end_commit(group_id, OffsetCommitEnded(commit=commit))
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return refusal(message, request.header.api_version, code, why)


async def _held(
    request: GroupRequest, group_id: str, anchors: Anchors, patience_s: float
) -> AnchorIds | None:
    """The ids to commit under. Nobody waits for them who could not commit: raises UpstreamAway,
    NotAnchored."""
    if not await request.upstream.is_there():
        raise UpstreamAway
    return await anchors.hold(group_id, patience_s=patience_s)


async def _send(
    request: GroupRequest, message: CommitRequest, ids: AnchorIds | None
) -> CommitResponse:
    """As a commit of the anchor's; as nobody's where there is no anchor: in the embedded cluster,
    and in a group without members, to which anybody may commit."""
    member_id, generation = (ids.member_id, ids.generation) if ids is not None else ("", -1)
    instance_id = INSTANCE_ID if ids is not None else None
    answer: CommitResponse
    match message:
        case OffsetCommitRequest():
            answer = await forward(
                request,
                replace(
                    message,
                    generation_id_or_member_epoch=generation,
                    member_id=member_id,
                    group_instance_id=instance_id,
                ),
                since_version=FIRST_COMMIT_VERSION if ids is not None else 0,
            )
        case TxnOffsetCommitRequest():
            if highest_version(request.upstream, ApiKey.TXN_OFFSET_COMMIT) < (
                FIRST_TXN_COMMIT_VERSION
            ):  # Kafka before 2.5 checks no member of a transaction's
                member_id, generation, instance_id = "", -1, None
            answer = await forward(
                request,
                replace(
                    message,
                    generation_id=generation,
                    member_id=member_id,
                    group_instance_id=instance_id,
                ),
                since_version=FIRST_TXN_COMMIT_VERSION if instance_id is not None else 0,
            )
    return answer
