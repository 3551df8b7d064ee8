"""Commits of hosted groups and deletions of offsets: the engine checks, the cluster acts.

How an accepted commit is stored is in `commit_storing`, fetches are in `offset_fetch`.
"""

from dataclasses import replace
from typing import cast

from coordinator.errors import ErrorCode
from coordinator.events import OffsetCommitEnded, OffsetCommitReceived, OffsetDeleteReceived
from coordinator.replies import OffsetDeleteVerdict, OffsetVerdict
from coordinator.topics import Topics
from coordinator.volatile import Token
from gateway.anchor.anchors import Anchors
from gateway.data_path.group_apis import GroupRequest
from gateway.groups import offset_delete
from gateway.groups.commit_parts import CommitRequest, joined, split
from gateway.groups.commit_storing import store
from gateway.groups.forwarding import forward
from gateway.groups.refusals import refusal
from gateway.groups.registry import Registry
from kafka_codecs.declaration import Struct
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest


class OffsetApis:
    """OffsetCommit, TxnOffsetCommit and OffsetDelete of a hosted group."""

    def __init__(self, registry: Registry, anchors: Anchors) -> None:
        self._registry = registry
        self._anchors = anchors

    async def commit(self, request: GroupRequest, message: CommitRequest) -> Struct:
        """Check, then store. Raises UpstreamLost, TooManyGroups."""
        commit, verdict = await self._check(request, message)
        if verdict.error:
            code = self._registry.still(verdict.error)
            return refusal(message, request.header.api_version, code, verdict.why)
        if verdict.gone:
            return await self._commit_rest(request, message, commit, verdict.gone)
        return await store(request, message, commit, registry=self._registry, anchors=self._anchors)

    async def _commit_rest(
        self, request: GroupRequest, message: CommitRequest, commit: Token, gone: frozenset[str]
    ) -> Struct:
        """All but the topics that are gone."""
        refused, rest = split(message, gone)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        told = refusal(refused, request.header.api_version, code, "")
        if not rest.topics:
            self._registry.end_commit(message.group_id, OffsetCommitEnded(commit=commit))
            return told
        answer = await store(request, rest, commit, registry=self._registry, anchors=self._anchors)
        return joined(answer, told)

    async def delete(self, request: GroupRequest, message: OffsetDeleteRequest) -> Struct:
        """Offsets of topics that somebody subscribes to stay; the cluster deletes the others, once
        the anchor has left. Raises UpstreamLost, TooManyGroups, NotAnchored.
        """
        names = tuple(topic.name for topic in message.topics)
        image = Topics()

        def event(token: int, topics: Topics) -> OffsetDeleteReceived:
            nonlocal image
            image = topics
            return OffsetDeleteReceived(token=token, topic_names=names)

        _token, reply = await self._registry.ask(message.group_id, event, names)
        verdict = cast(OffsetDeleteVerdict, reply)
        if verdict.error:
            return OffsetDeleteResponse(error_code=self._registry.still(verdict.error))

        def stays(name: str, index: int) -> bool:
            return name in verdict.subscribed and offset_delete.exists(image, name, index)

        kept = offset_delete.kept(message, stays)
        deletable = offset_delete.deletable(message, stays)
        if not deletable:
            return OffsetDeleteResponse(topics=kept)
        if self._registry.is_live(message.group_id) and self._anchors.is_here(message.group_id):
            # DEV D37: the cluster sees the anchor in the group, and does not know what we know.
            refused = offset_delete.answered_here(deletable, image, ErrorCode.NON_EMPTY_GROUP)
            return OffsetDeleteResponse(topics=(*refused, *kept))
        await self._anchors.drop(message.group_id)
        answer: OffsetDeleteResponse = await forward(request, replace(message, topics=deletable))
        if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND and verdict.group_exists:
            never_committed = offset_delete.answered_here(deletable, image, ErrorCode.NONE)
            answer = OffsetDeleteResponse(topics=never_committed)
        return replace(answer, topics=(*answer.topics, *kept))

    async def _check(
        self, request: GroupRequest, message: CommitRequest
    ) -> tuple[Token, OffsetVerdict]:
        names = [topic.name for topic in message.topics]

        def event(token: int, topics: Topics) -> OffsetCommitReceived:
            return OffsetCommitReceived(
                token=token,
                version=request.header.api_version,
                member_id=message.member_id,
                instance_id=message.group_instance_id,
                epoch=(
                    message.generation_id_or_member_epoch
                    if isinstance(message, OffsetCommitRequest)
                    else message.generation_id
                ),
                topic_names=frozenset(names),
                partitions=topics.partitions(
                    (topic.name, [p.partition_index for p in topic.partitions])
                    for topic in message.topics
                ),
                is_transactional=isinstance(message, TxnOffsetCommitRequest),
            )

        commit, reply = await self._registry.ask(message.group_id, event, names)
        return commit, cast(OffsetVerdict, reply)
