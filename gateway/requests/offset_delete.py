"""OffsetDelete of a hosted group: offsets of subscribed topics stay, the cluster deletes the others
after the anchor has left the group.

The image of the topics says what exists, the engine's decision which topics are subscribed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import cast

import trio

from coordinator.interface.events import OffsetDeleteReceived
from coordinator.interface.replies import OffsetDeleteReply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.data_path.grants import Resource
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.group_drivers import GroupRefused, require_reply
from gateway.groups.groups import Groups
from gateway.hosting.answers import GroupApi, RefusalReason, needs_lease
from gateway.hosting.calls import Call, Forwarded, Refused
from gateway.requests.authorization import refused_names
from gateway.requests.coordinators import Coordinators
from gateway.requests.forwarding import ask_cluster, forward
from gateway.requests.refusals import refuse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

Topic = OffsetDeleteRequestTopic
Wanted = Callable[[str, int], bool]


class OffsetDeleteApi:
    """Answers OffsetDelete."""

    def __init__(self, groups: Groups, coordinators: Coordinators) -> None:
        self._groups = groups
        self._coordinators = coordinators

    async def answer(
        self, request: GroupRequest, message: OffsetDeleteRequest
    ) -> OffsetDeleteResponse:
        """Delete offsets of topics without subscribers. Raises BrokerLost, GroupFailed."""
        if not message.group_id:
            version = request.header.api_version
            return _refuse(message, version, RefusalReason.EMPTY_GROUP_ID)
        return await delete_allowed(request, message, partial(self._answer, request))

    async def _answer(
        self, request: GroupRequest, message: OffsetDeleteRequest
    ) -> OffsetDeleteResponse:
        group_id, version = message.group_id, request.header.api_version
        names = tuple(topic.name for topic in message.topics)
        image = Topics()

        def event(token: Token, topics: Topics) -> OffsetDeleteReceived:
            nonlocal image
            image = topics
            return OffsetDeleteReceived(token=token, topic_names=names)

        call = Call(
            api=GroupApi.OFFSET_DELETE,
            make=event,
            topic_names=frozenset(names),
            owner=request.owner,
            node_id=request.node_id,
            is_at_coordinator=self._coordinators.is_at_lately(group_id, request),
        )
        answer = await self._groups.router.answer_without_driver(group_id, call)
        if isinstance(answer, OffsetDeleteReply) and not answer.error:
            if not answer.group_exists:  # it has no anchor either
                return cast(OffsetDeleteResponse, await forward(request, message))
            answer = None  # the topics have to be known
        if answer is None:
            answer = await self._groups.drivers.driver(group_id, request.owner).ask(call)
        if isinstance(answer, Refused):
            return _refuse(message, version, answer.cause)
        if isinstance(answer, Forwarded):
            with self._groups.drivers.relaying(group_id, call):
                return cast(OffsetDeleteResponse, await ask_cluster(request, message))
        decision = cast(OffsetDeleteReply, require_reply(answer))
        if needs_lease(
            GroupApi.OFFSET_DELETE, decision.error
        ) and not self._groups.drivers.may_answer_for(group_id):
            return _refuse(message, version, RefusalReason.LOG_NOT_OURS)
        if decision.error:
            return OffsetDeleteResponse(error_code=decision.error)
        return await self._delete(request, message, image, decision)

    async def _delete(
        self,
        request: GroupRequest,
        message: OffsetDeleteRequest,
        image: Topics,
        decision: OffsetDeleteReply,
    ) -> OffsetDeleteResponse:
        def stays(name: str, index: int) -> bool:
            return name in decision.subscribed and exists(image, name, index)

        group_id = message.group_id
        staying = refuse_partitions(message, stays, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        await trio.lowlevel.checkpoint()  # the request may name thousands of topics
        others = deletable(message, stays)
        if not others:
            return OffsetDeleteResponse(topics=staying)
        if self._groups.drivers.is_live(group_id) and self._groups.drivers.is_held(group_id):
            # DEV D37: the cluster would refuse, because the anchor is in the group.
            held = answered_here(others, image, ErrorCode.NON_EMPTY_GROUP)
            return OffsetDeleteResponse(topics=(*held, *staying))
        try:
            await self._groups.drivers.drop_anchor(group_id)
        except GroupRefused as error:
            return _refuse(message, request.header.api_version, error.cause)
        answer: OffsetDeleteResponse = await forward(request, replace(message, topics=others))
        if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND and decision.group_exists:
            never_committed = answered_here(others, image, ErrorCode.NONE)
            answer = OffsetDeleteResponse(topics=never_committed)
        return replace(answer, topics=(*answer.topics, *staying))


async def delete_allowed(
    request: GroupRequest,
    message: OffsetDeleteRequest,
    delete: Callable[[OffsetDeleteRequest], Awaitable[OffsetDeleteResponse]],
) -> OffsetDeleteResponse:
    """Have the offsets deleted whose topics the client may read. Raises BrokerLost."""
    names = [topic.name for topic in message.topics]
    hidden = await refused_names(request, Resource.TOPIC, names)
    if not hidden:
        return await delete(message)

    def is_hidden(name: str, _index: int) -> bool:
        return name in hidden

    refused_part = refuse_partitions(message, is_hidden, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    others = deletable(message, is_hidden)
    if not others:
        return OffsetDeleteResponse(topics=refused_part)
    answer = await delete(replace(message, topics=others))
    if answer.error_code:
        return answer
    return replace(answer, topics=(*refused_part, *answer.topics))


def _refuse(
    message: OffsetDeleteRequest, version: int, cause: RefusalReason
) -> OffsetDeleteResponse:
    return cast(OffsetDeleteResponse, refuse(message, version, cause, ""))


def deletable(request: OffsetDeleteRequest, stays: Wanted) -> tuple[Topic, ...]:
    """The part of a request that the cluster decides."""
    return _filter_topics(request.topics, lambda name, index: not stays(name, index))


def refuse_partitions(
    request: OffsetDeleteRequest, stays: Wanted, code: ErrorCode
) -> tuple[OffsetDeleteResponseTopic, ...]:
    """The answers for the partitions that stay, with this code."""
    return tuple(
        _with_code(topic, lambda _: code) for topic in _filter_topics(request.topics, stays)
    )


def answered_here(
    topics: tuple[Topic, ...], image: Topics, code: ErrorCode
) -> tuple[OffsetDeleteResponseTopic, ...]:
    """The answers for partitions that the cluster is not asked about: `code` for existing ones."""

    def answer_topic(topic: Topic) -> OffsetDeleteResponseTopic:
        return _with_code(
            topic,
            lambda index: (
                code if exists(image, topic.name, index) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ),
        )

    return tuple(answer_topic(topic) for topic in topics)


def exists(image: Topics, name: str, index: int) -> bool:
    """Whether the partition exists."""
    topic = image.by_name.get(name)
    return topic is not None and 0 <= index < topic.partition_count


def _filter_topics(topics: tuple[Topic, ...], wanted: Wanted) -> tuple[Topic, ...]:
    chosen = (
        (topic, tuple(p for p in topic.partitions if wanted(topic.name, p.partition_index)))
        for topic in topics
    )
    return tuple(
        replace(topic, partitions=partitions) for topic, partitions in chosen if partitions
    )


def _with_code(topic: Topic, code: Callable[[int], int]) -> OffsetDeleteResponseTopic:
    def partition(requested: OffsetDeleteRequestPartition) -> OffsetDeleteResponsePartition:
        index = requested.partition_index
        return OffsetDeleteResponsePartition(partition_index=index, error_code=code(index))

    return OffsetDeleteResponseTopic(
        name=topic.name, partitions=tuple(partition(requested) for requested in topic.partitions)
    )
