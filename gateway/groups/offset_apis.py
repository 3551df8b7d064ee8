"""Commits of hosted groups and deletions of offsets: the engine checks, the cluster acts.

Fetches are in `offset_fetch`.

Commits go to the cluster as plain requests, without a member, under the same group id: there the
group is empty. What is on its way counts as held by its committer until the cluster has answered.
"""

from dataclasses import replace
from typing import cast

from coordinator.errors import ErrorCode
from coordinator.events import (
    OffsetCommitEnded,
    OffsetCommitReceived,
    OffsetDeleteReceived,
)
from coordinator.replies import OffsetDeleteVerdict, OffsetVerdict
from coordinator.topics import Topics
from gateway.data_path.group_apis import GroupRequest
from gateway.groups import offset_delete
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

NO_GENERATION = -1
NO_MEMBER = ""


class OffsetApis:
    """OffsetCommit, TxnOffsetCommit and OffsetDelete of a hosted group."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def commit(self, request: GroupRequest, message: OffsetCommitRequest) -> Struct:
        """Check, then store. Raises UpstreamLost, TooManyGroups."""
        plain = replace(
            message,
            generation_id_or_member_epoch=NO_GENERATION,
            member_id=NO_MEMBER,
            group_instance_id=None,
        )
        epoch = message.generation_id_or_member_epoch
        return await self._check_then_store(request, message, epoch, plain)

    async def txn_commit(self, request: GroupRequest, message: TxnOffsetCommitRequest) -> Struct:
        """The same as part of a transaction. Raises UpstreamLost, TooManyGroups."""
        plain = replace(
            message, generation_id=NO_GENERATION, member_id=NO_MEMBER, group_instance_id=None
        )
        return await self._check_then_store(request, message, message.generation_id, plain)

    async def delete(self, request: GroupRequest, message: OffsetDeleteRequest) -> Struct:
        """Offsets of topics that somebody subscribes to stay; the cluster deletes the others.

        Raises UpstreamLost, TooManyGroups.
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
            return OffsetDeleteResponse(error_code=verdict.error)

        def stays(name: str, index: int) -> bool:
            return name in verdict.subscribed and offset_delete.exists(image, name, index)

        kept = offset_delete.kept(message, stays)
        deletable = offset_delete.deletable(message, stays)
        if not deletable:
            return OffsetDeleteResponse(topics=kept)
        answer: OffsetDeleteResponse = await forward(request, replace(message, topics=deletable))
        if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND and verdict.group_exists:
            answer = offset_delete.never_committed(deletable, image)
        return replace(answer, topics=(*answer.topics, *kept))

    async def _check_then_store(
        self,
        request: GroupRequest,
        message: OffsetCommitRequest | TxnOffsetCommitRequest,
        epoch: int,
        plain: Struct,
    ) -> Struct:
        def event(token: int, topics: Topics) -> OffsetCommitReceived:
            return OffsetCommitReceived(
                token=token,
                version=request.header.api_version,
                member_id=message.member_id,
                instance_id=message.group_instance_id,
                epoch=epoch,
                partitions=topics.partitions(
                    (topic.name, [p.partition_index for p in topic.partitions])
                    for topic in message.topics
                ),
                is_transactional=isinstance(message, TxnOffsetCommitRequest),
            )

        group_id = message.group_id
        commit, reply = await self._registry.ask(
            group_id, event, [topic.name for topic in message.topics]
        )
        verdict = cast(OffsetVerdict, reply)
        if verdict.error:
            return refusal(message, request.header.api_version, verdict.error, verdict.why)
        answer_lost = True
        try:
            answer: Struct = await forward(request, plain)
            answer_lost = False
        finally:
            # Whatever ended the wait, the group must learn of it: it holds back the partitions.
            ended = OffsetCommitEnded(commit=commit, answer_lost=answer_lost)
            self._registry.end_commit(group_id, ended)
        return answer
