"""OffsetCommit, TxnOffsetCommit and OffsetDelete of hosted groups: the engine checks the request,
the cluster executes it.

`commit_storing` stores accepted commits; `offset_fetch` handles fetches.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import trio

from coordinator.interface.events import (
    OffsetCommitEnded,
    OffsetCommitReceived,
    OffsetDeleteReceived,
)
from coordinator.interface.replies import OffsetDeleteVerdict, OffsetVerdict
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.anchor.anchors import Anchors
from gateway.data_path.group_apis import GroupRequest
from gateway.groups import offset_delete
from gateway.groups.commit_parts import CommitRequest, joined, split
from gateway.groups.commit_storing import Accepted, store
from gateway.groups.forwarding import forward
from gateway.groups.refusals import refusal
from gateway.groups.registry import Registry
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
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

    async def commit(self, requests: Sequence[GroupRequest]) -> Sequence[Struct | None]:
        """Check the commits of one client to one group in order, then store those accepted. The
        answer is None for a commit that the cluster may never have seen. Raises TooManyGroups."""
        answers: list[Struct | None] = [None] * len(requests)
        accepted: dict[int, Accepted] = {}
        try:
            for index, request in enumerate(requests):
                checked = await self._checked(request)
                if isinstance(checked, Accepted):
                    accepted[index] = checked
                else:
                    answers[index] = checked
        except BaseException:
            for commit in accepted.values():
                self._end(commit)
            raise
        if accepted:
            stored = await store(
                requests[0],
                tuple(accepted.values()),
                registry=self._registry,
                anchors=self._anchors,
            )
            for index, commit in accepted.items():
                answers[index] = _joined(requests[index], commit, stored[commit.token])
        return answers

    async def _checked(self, request: GroupRequest) -> Accepted | Struct:
        """The accepted part of a commit, or the answer if nothing is accepted."""
        message, version = cast(CommitRequest, request.message), request.header.api_version
        commit, verdict = await self._check(request, message)
        if verdict.error:
            return refusal(message, version, self._registry.still(verdict.error), verdict.why)
        if not verdict.gone:
            return Accepted(message, commit)
        gone, rest = split(message, verdict.gone)
        accepted = Accepted(rest, commit)
        if rest.topics:
            return accepted
        self._end(accepted)
        return refusal(gone, version, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")

    def _end(self, commit: Accepted) -> None:
        event = OffsetCommitEnded(commit=commit.token)
        self._registry.end_commit(commit.message.group_id, event)

    async def delete(self, request: GroupRequest, message: OffsetDeleteRequest) -> Struct:
        """Delete offsets of topics without subscribers. Offsets of subscribed topics stay; the
        cluster deletes the others after the anchor has left the group. Raises UpstreamLost,
        TooManyGroups, NotAnchored."""
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
        await trio.lowlevel.checkpoint()  # the request may name thousands of topics
        deletable = offset_delete.deletable(message, stays)
        if not deletable:
            return OffsetDeleteResponse(topics=kept)
        if self._registry.is_live(message.group_id) and self._anchors.is_here(message.group_id):
            # DEV D37: the cluster would refuse, because the anchor is in the group.
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


def _joined(request: GroupRequest, commit: Accepted, answer: Struct | None) -> Struct | None:
    """The answer to the whole commit. Deleted topics get UNKNOWN_TOPIC_OR_PARTITION."""
    message = cast(CommitRequest, request.message)
    if answer is None or len(commit.message.topics) == len(message.topics):
        return answer
    kept = {topic.name for topic in commit.message.topics}
    gone, _rest = split(message, frozenset(topic.name for topic in message.topics) - kept)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return joined(answer, refusal(gone, request.header.api_version, code, ""))
