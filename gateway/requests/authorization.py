"""Asks the cluster what a client may do, on the client's own connection.

The gateway sends an operation that needs the permission and has no effect, and looks at the error
(`gateway.cluster.group_permissions`). What the cluster allows is remembered
(`gateway.data_path.grants`).
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import cast

import trio

from gateway.batches import batches
from gateway.cluster.embedded import is_embedded
from gateway.cluster.group_permissions import NOBODY, Operation, codes_in, questions_about
from gateway.cluster.own_permissions import commit_of_nothing
from gateway.cluster.topics import request_operations
from gateway.data_path.errors import BrokerLost
from gateway.data_path.grants import Grants, Permission, Resource
from gateway.data_path.group_apis import GroupRequest
from gateway.hosting.answers import BY_MEMBERS, GroupApi
from gateway.requests.commit_parts import CommitRequest
from gateway.requests.messages import GroupMessage, api_of
from gateway.requests.permissions import NEEDED, OLDER_OPERATIONS, REFUSED
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import (
    AUTHORIZED_OPERATIONS_OMITTED,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest

_GROUP = Resource.GROUP  # every request asks, and Python 3.11 takes long to find an Enum's member
NO_GENERATION = 2**31 - 1
"""The generation of a commit that must not count: -1 would be stored for an empty group."""
TOPICS_TOGETHER_MAX = 100
"""Topics of one question. The answer has all their partitions."""
FIRST_COMMIT_VERSION = 2

_ABOUT_A_TOPIC = frozenset(
    {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)

_IN_KAFKAS_ORDER = (Resource.TRANSACTIONAL_ID, Resource.GROUP, Resource.TOPIC)

_GOES_ON = frozenset({*BY_MEMBERS, GroupApi.LEAVE, GroupApi.CONSUMER_LEAVE})

_ALLOWED = frozenset(
    {
        *(ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION),
        *(ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.INVALID_GROUP_ID),
        *(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        *(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.GROUP_ID_NOT_FOUND),
        *(ErrorCode.NON_EMPTY_GROUP, ErrorCode.FENCED_INSTANCE_ID),
    }
)
"""What a broker answers after it has checked the permission on a group."""


def is_known_to_be_allowed(request: GroupRequest, message: GroupMessage) -> bool:
    """Whether nothing has to be asked before this request about one group."""
    for grant in _list_needed(message):  # noqa: SIM110  # every heartbeat comes here
        if not request.grants.has(grant, request.at_s):
            return False
    return True


async def why_refused(request: GroupRequest, message: GroupMessage) -> ErrorCode:
    """The error for a client that may not send this request about one group, or NONE.

    While the cluster cannot be asked, members continue and no client joins. Raises BrokerLost.
    """
    if is_known_to_be_allowed(request, message):
        return ErrorCode.NONE
    needed = _list_needed(message)
    try:
        for resource in _IN_KAFKAS_ORDER:
            names = [grant.name for grant in needed if grant.resource is resource]
            if await refused_names(request, resource, names):
                return REFUSED[resource]
    except BrokerLost:
        if api_of(message) not in _GOES_ON or not request.grants.had(needed):
            raise
        request.grants.keep(needed, trio.current_time(), request.owner)
    return ErrorCode.NONE


def _list_needed(message: GroupMessage) -> list[Permission]:
    key, group = message.SCHEMA.api_key, _GROUP
    assert key is not None
    needed = [Permission(group, NEEDED[key, group], message.group_id)]
    if isinstance(message, TxnOffsetCommitRequest):
        transaction = Resource.TRANSACTIONAL_ID
        needed.append(Permission(transaction, NEEDED[key, transaction], message.transactional_id))
    if isinstance(message, ConsumerGroupHeartbeatRequest) and message.subscribed_topic_names:
        topic = Resource.TOPIC
        operation = NEEDED[key, topic]
        names = dict.fromkeys(message.subscribed_topic_names)
        needed += [Permission(topic, operation, name) for name in names]
    return needed


async def refused_names(
    request: GroupRequest, resource: Resource, names: Collection[str]
) -> frozenset[str]:
    """The resources that the client may not use in this request. Raises BrokerLost if the cluster
    cannot be asked."""
    if not names:
        return frozenset()
    operation = NEEDED[ApiKey(request.header.api_key), resource]
    wanted = [Permission(resource, operation, name) for name in dict.fromkeys(names)]
    grants, node_id = request.grants, request.node_id
    await grants.wait_for_answers(_list_unknown(grants, wanted), node_id)
    if not (unknown := _list_unknown(grants, wanted)):
        return frozenset()
    now_s = trio.current_time()
    unknown_names = [grant.name for grant in unknown]
    # Behind an answer that this client does not read, it may take long: others ask themselves.
    asks_for_all = request.upstream.is_idle
    with grants.ask_about(unknown, node_id) if asks_for_all else nullcontext():
        if is_embedded(request.upstream.versions):  # which knows no permissions
            allowed = frozenset(unknown_names)
        elif resource is Resource.TOPIC:
            allowed = await _allowed_topics(request, operation, unknown_names)
        elif resource is Resource.TRANSACTIONAL_ID:
            allowed = await _allowed_transactional_ids(request, unknown_names)
        else:
            allowed = await _allowed_groups(request, operation, unknown_names)
        for grant in unknown:
            if grant.name in allowed:
                grants.add(grant, now_s, request.owner)
            else:
                grants.remove(grant)
    return frozenset(grant.name for grant in unknown if grant.name not in allowed)


def _list_unknown(grants: Grants, wanted: Sequence[Permission]) -> Sequence[Permission]:
    now_s = trio.current_time()
    return [grant for grant in wanted if not grants.has(grant, now_s)]


async def _allowed_groups(
    request: GroupRequest, operation: Operation, group_ids: Sequence[str]
) -> frozenset[str]:
    codes = await _codes(request, operation, group_ids)
    older = OLDER_OPERATIONS.get(operation)
    if older is not None and (codes is None or ErrorCode.INVALID_REQUEST in codes.values()):
        codes = await _codes(request, older, group_ids)
    if codes is None:
        return frozenset()  # DEV D48
    refusal = REFUSED[Resource.GROUP]
    if any(code != refusal and code not in _ALLOWED for code in codes.values()):
        raise BrokerLost  # the cluster does not say
    return frozenset(group_id for group_id, code in codes.items() if code != refusal)


async def _codes(
    request: GroupRequest, operation: Operation, group_ids: Sequence[str]
) -> Mapping[str, int] | None:
    """What the broker answers to an operation without effect on each group; None if it does not
    have the api."""
    questions = questions_about(operation, group_ids)
    key = questions[0].SCHEMA.api_key
    assert key is not None
    if key not in request.upstream.versions:
        return None
    low, _high = request.upstream.versions[key]
    answers = await request.upstream.ask_all(questions, low)
    return codes_in(answers, group_ids)


async def topic_codes(request: GroupRequest, commit: CommitRequest) -> Mapping[str, ErrorCode]:
    """The topics of a commit that the client may not read, and those that do not exist, with the
    codes of a broker: it is asked with the commit of a member that cannot exist. Raises
    BrokerLost."""
    if is_embedded(request.upstream.versions):
        return {}
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=""
    )
    probe = OffsetCommitRequest(
        group_id=commit.group_id,
        generation_id_or_member_epoch=NO_GENERATION,
        member_id=NOBODY,
        topics=tuple(
            OffsetCommitRequestTopic(name=topic.name, partitions=(partition,))
            for topic in commit.topics
        ),
    )
    low, _high = request.upstream.versions[ApiKey.OFFSET_COMMIT]
    version = max(low, FIRST_COMMIT_VERSION)
    answer = cast(OffsetCommitResponse, await request.upstream.ask(probe, version))
    codes = {topic.name: ErrorCode(topic.partitions[0].error_code) for topic in answer.topics}
    return {name: code for name, code in codes.items() if code in _ABOUT_A_TOPIC}


async def _allowed_topics(
    request: GroupRequest, operation: Operation, names: Sequence[str]
) -> frozenset[str]:
    topics = await _describe(request, names)
    return frozenset(
        topic.name
        for topic in topics
        if topic.name is not None
        and _is_allowed(topic, operation)
        and not request.private_names.has_topic(topic.name)
    )


async def _describe(request: GroupRequest, names: Sequence[str]) -> Sequence[MetadataResponseTopic]:
    topics: list[MetadataResponseTopic] = []
    highest = request.upstream.versions[ApiKey.METADATA][1]
    for batch in batches(names, TOPICS_TOGETHER_MAX):
        answer = cast(
            MetadataResponse, await request.upstream.ask(*request_operations(batch, highest))
        )
        topics += answer.topics
    return topics


def _is_allowed(topic: MetadataResponseTopic, operation: Operation) -> bool:
    """Whether the bit field has the operation. A broker that omits it knows no permissions."""
    operations = topic.topic_authorized_operations
    return topic.error_code != REFUSED[Resource.TOPIC] and (
        operations == AUTHORIZED_OPERATIONS_OMITTED or bool(operations >> operation & 1)
    )


async def _allowed_transactional_ids(
    request: GroupRequest, transactional_ids: Sequence[str]
) -> frozenset[str]:
    probes = [commit_of_nothing(id_) for id_ in transactional_ids]
    low, _high = request.upstream.versions[ApiKey.TXN_OFFSET_COMMIT]
    answers = await request.upstream.ask_all(probes, low)
    codes = [answer.topics[0].partitions[0].error_code for answer in answers]
    refusal = REFUSED[Resource.TRANSACTIONAL_ID]
    return frozenset(
        id_ for id_, code in zip(transactional_ids, codes, strict=True) if code != refusal
    )
