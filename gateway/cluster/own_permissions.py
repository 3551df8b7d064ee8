"""Finds out at the start which permissions the gateway itself lacks. Changes nothing."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import trio
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.group_permissions import Operation, codes_in, questions_about
from gateway.cluster.topics import request_operations
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import (
    AUTHORIZED_OPERATIONS_OMITTED,
    MetadataResponseTopic,
)
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ANY_NAME = "permission-check-of-groupferry"
"""A name that no ACL is about, unless it is about all names. Those of the documentation are about
all that begin with `groupferry-`."""
NO_TOPIC = "no/topic"
"""No topic may have such a name."""
TIMEOUT_S = 10.0

_OWN_TOPIC_OPERATIONS = {"READ": 3, "WRITE": 4, "DESCRIBE": 8, "DESCRIBE_CONFIGS": 10}
"""The bits in Metadata of the operations on topics of our own."""
_CREATE = 5
_ADMIN_OPERATIONS = (Operation.DELETE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
NOT_ASKED_ELSEWHERE = (
    "admin clients cannot do that here with groups of other machines, unless ACLs for the gateway"
    " name them"
)
_NO_PRODUCER = -1
_MAY_WRITE = frozenset({AclOperation.WRITE, AclOperation.ALL})


@dataclass(frozen=True, slots=True)
class Missing:
    """A permission that the gateway does not have."""

    operation: str
    resource: str
    effect: str


async def may_read_group(connection: BrokerConnection, group_id: str) -> bool:
    """Whether the gateway may join a group. Raises UpstreamError."""
    return await _may(connection, Operation.READ, group_id)


async def _may(connection: BrokerConnection, operation: Operation, group_id: str) -> bool:
    """Whether the gateway may do this with a group. A broker without the api refuses no
    operation."""
    (question,) = questions_about(operation, (group_id,))
    key = question.SCHEMA.api_key
    assert key is not None
    if key not in connection.versions:
        return True
    low, _high = connection.versions[key]
    answer = await connection.ask(question, low)
    code = codes_in((answer,), (group_id,))[group_id]
    return code != ErrorCode.GROUP_AUTHORIZATION_FAILED


async def missing_permissions(
    connection: BrokerConnection,
    topics: Collection[str],
    transactional_ids: Collection[str],
    fleet_group: str | None = None,
) -> list[Missing]:
    """What the gateway lacks for hosting groups, for its own topics, and, if its fleet runs on
    several machines, for the group of that fleet and for what admin clients ask about groups of
    other machines. Raises UpstreamError."""
    highest = connection.highest_version(ApiKey.METADATA)
    request, version = request_operations((ANY_NAME, *topics), highest)
    missing: list[Missing] = []
    for topic in (await connection.ask(request, version)).topics:
        if topic.name == ANY_NAME:
            if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                effect = "members get partitions only of topics that ACLs for the gateway name"
                missing.append(Missing("DESCRIBE", "all topics", effect))
            if fleet_group is not None and "READ" in _lacking(topic):
                missing.append(Missing("READ", "all topics", NOT_ASKED_ELSEWHERE))
        else:
            effect = "the gateway cannot keep its state or events there"
            lacking = _lacking(topic)
            missing += (Missing(operation, f"topic {topic.name}", effect) for operation in lacking)
    if fleet_group is not None and not await may_read_group(connection, fleet_group):
        effect = "the gateway cannot be in its fleet"
        missing.append(Missing("READ", f"group {fleet_group}", effect))
    effect = "only groups that ACLs for the gateway name can be hosted"
    if not await may_read_group(connection, ANY_NAME):
        missing.append(Missing("READ", "all groups", effect))
    if not await _may(connection, Operation.DESCRIBE, ANY_NAME):
        missing.append(Missing("DESCRIBE", "all groups", effect))
    for operation in _ADMIN_OPERATIONS if fleet_group is not None else ():
        if not await _may(connection, operation, ANY_NAME):
            missing.append(Missing(operation.name, "all groups", NOT_ASKED_ELSEWHERE))
    can_ask = ApiKey.TXN_OFFSET_COMMIT in connection.versions  # not if it has no transactions
    for transactional_id in transactional_ids if can_ask else ():
        version, _high = connection.versions[ApiKey.TXN_OFFSET_COMMIT]
        answer = await connection.ask(commit_of_nothing(transactional_id), version)
        code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            effect = "the gateway cannot write its state topic"
            missing.append(Missing("WRITE", f"transactional id {transactional_id}", effect))
    return missing


def commit_of_nothing(transactional_id: str) -> TxnOffsetCommitRequest:
    """A request without effect that needs WRITE on the transactional id: the topic of the offset
    cannot exist."""
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=""
    )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=ANY_NAME,
        producer_id=_NO_PRODUCER,
        producer_epoch=_NO_PRODUCER,
        topics=(TxnOffsetCommitRequestTopic(name=NO_TOPIC, partitions=(partition,)),),
    )


def _lacking(topic: MetadataResponseTopic) -> Iterator[str]:
    operations = topic.topic_authorized_operations
    if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        yield from _OWN_TOPIC_OPERATIONS
    elif operations != AUTHORIZED_OPERATIONS_OMITTED:
        yield from (
            name for name, bit in _OWN_TOPIC_OPERATIONS.items() if not operations >> bit & 1
        )
        is_unknown = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_unknown and not operations >> _CREATE & 1:
            yield "CREATE"


async def other_writers(
    config: Mapping[str, Any], topics: Collection[str], own_principal: str | None
) -> Mapping[str, frozenset[str]]:
    """The principals besides our own that ACLs allow to write to each topic, as far as the cluster
    tells within TIMEOUT_S: only those with DESCRIBE on the cluster may see ACLs."""
    writers: dict[str, frozenset[str]] = {}

    async def find_writers(topic: str) -> None:
        principals = await trio.to_thread.run_sync(_writers, config, topic, abandon_on_cancel=True)
        writers[topic] = principals - {own_principal}

    async with trio.open_nursery() as nursery:
        for topic in topics:
            nursery.start_soon(find_writers, topic)
    return writers


def _writers(config: Mapping[str, Any], topic: str) -> frozenset[str]:
    anyone: Any = None
    wanted = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.MATCH,
        anyone,
        anyone,
        AclOperation.ANY,
        AclPermissionType.ALLOW,
    )
    try:
        admin = AdminClient(dict(config))  # kept until it has answered
        bindings = admin.describe_acls(wanted, request_timeout=TIMEOUT_S).result()
    except KafkaException:
        return frozenset()
    return frozenset(binding.principal for binding in bindings if binding.operation in _MAY_WRITE)
