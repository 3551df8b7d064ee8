"""Runs the demo on the user's own cluster, with a temporary topic and a temporary group.

Creates the topic, and removes topic and group however the run ends. It touches nothing that existed
before: names in use are refused.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

import structlog
import trio
from confluent_kafka import KafkaError

from gateway.addresses import Address
from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.demo.errors import DemoError
from gateway.demo.upstream import DemoCluster
from gateway.error_groups import first_of
from kafka_codecs.apis import ApiKey
from kafka_codecs.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.list_groups import ListGroupsRequest
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic

ClientOf = Callable[[], AbstractAsyncContextManager[Cluster]]
_R = TypeVar("_R", CreatableTopicResult, DeletableTopicResult)

_NO_VERSION = (0, 0)
_CLUSTER_DECIDES = -1
_FIRST_CREATE_TOPICS_WHERE_IT_CAN = 4
_REPLICAS_ELSEWHERE = 3
_LAST_DELETE_TOPICS_BY_NAME = 5
_NOT_CONTROLLER = 41
_UNKNOWN_TOPIC = 3

_REQUEST_LIMIT_MS = 15_000
SPREAD_LIMIT_S = 30.0
COORDINATOR_LIMIT_S = 15.0
_REMOVAL_LIMIT_S = 15.0
_LOOK_INTERVAL_S = 0.1

log = structlog.get_logger()


def random_prefix() -> str:
    """A random prefix, so that names do not collide."""
    return f"groupferry-demo-{secrets.token_hex(4)}"


@asynccontextmanager
async def borrow_cluster(
    addresses: Sequence[Address], prefix: str, partitions: int, *, access: Access = PLAIN_ACCESS
) -> AsyncIterator[DemoCluster]:
    """Use a topic and a group id on that cluster, with names that begin with the prefix.

    The topic has the cluster's default number of replicas. Raises DemoError if the cluster does not
    answer, refuses the topic, has the names already, or refuses their removal at the end. If the
    block failed, a failed removal is only logged.
    """
    bootstrap = ",".join(map(str, addresses))
    upstream = DemoCluster(
        bootstrap=bootstrap,
        topic=f"{prefix}-numbers",
        group=f"{prefix}-group",
        access=access,
    )
    client_of = partial(_client_of, addresses, access)
    async with client_of() as cluster:
        await _refuse_taken_group(cluster, upstream.group)
        with trio.CancelScope(shield=True):  # finish, so that we know whether to remove the topic
            await _make_topic(cluster, upstream.topic, partitions)
    log.info("topic_created", upstream=bootstrap, topic=upstream.topic, partitions=partitions)
    try:
        async with client_of() as cluster:
            await _spread(cluster, upstream.topic, partitions)
        yield upstream
    except BaseException:
        await _remove(client_of, upstream)
        raise
    leftovers = await _remove(client_of, upstream)
    if leftovers is not None:
        raise DemoError(leftovers)


@asynccontextmanager
async def _client_of(addresses: Sequence[Address], access: Access) -> AsyncIterator[Cluster]:
    """A client of the cluster during the block. Raises DemoError if the cluster does not answer."""
    cluster = Cluster(addresses, access=access)
    failure: DemoError | None = None
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            yield cluster
            nursery.cancel_scope.cancel()
    except* (UpstreamError, DemoError) as failures:
        failure = DemoError(str(first_of(failures)))
    if failure is not None:
        raise failure


async def _refuse_taken_group(cluster: Cluster, group: str) -> None:
    """A coordinator lists all of its groups, of any type, including those without members."""
    listed = await cluster.ask(await _coordinator_of(cluster, group), ListGroupsRequest())
    if any(listed_group.group_id == group for listed_group in listed.groups):
        raise DemoError(f"group {group} exists already, choose another --prefix")


async def _coordinator_of(cluster: Cluster, group: str) -> int:
    """A cluster has no coordinators before the first group of its life, which it makes then.

    Raises UpstreamError."""
    with trio.move_on_after(COORDINATOR_LIMIT_S):
        while True:
            with suppress(UpstreamError):
                return await cluster.coordinator_of(group)
            await trio.sleep(_LOOK_INTERVAL_S)
    return await cluster.coordinator_of(group)


async def _make_topic(cluster: Cluster, topic: str, partitions: int) -> None:
    async def make(node_id: int) -> CreatableTopicResult:
        _, version = (await cluster.versions_of(node_id)).get(ApiKey.CREATE_TOPICS, _NO_VERSION)
        cluster_can_decide = version >= _FIRST_CREATE_TOPICS_WHERE_IT_CAN
        replicas = min(_REPLICAS_ELSEWHERE, len(cluster.brokers))
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=_CLUSTER_DECIDES if cluster_can_decide else replicas,
        )
        request = CreateTopicsRequest(topics=(wanted,), timeout_ms=_REQUEST_LIMIT_MS)
        answer: CreateTopicsResponse = await cluster.ask(node_id, request)
        return answer.topics[0]

    made = await _at_the_controller(cluster, make)
    if made.error_code:
        raise DemoError(f"the cluster refused to create topic {topic}: {_explain_error(made)}")


async def _spread(cluster: Cluster, topic: str, partitions: int) -> None:
    """Wait until every broker knows the topic with all its leaders.

    Otherwise the topic could appear to a consumer later, with a rebalance.
    """
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False
    )
    error_code = 0
    with trio.move_on_after(SPREAD_LIMIT_S):
        for node_id in cluster.brokers:
            led = 0
            while led < partitions:
                await trio.sleep(_LOOK_INTERVAL_S)
                (seen,) = (await cluster.ask(node_id, request)).topics
                led = sum(partition.leader_id >= 0 for partition in seen.partitions)
                error_code = seen.error_code
        return
    reason = _name(error_code) if error_code else "a partition has no leader"
    raise DemoError(f"topic {topic} is not on every broker after {SPREAD_LIMIT_S:.0f} s: {reason}")


async def _remove(client_of: ClientOf, upstream: DemoCluster) -> str | None:
    """Remove group and topic, even when cancelled. Returns what is left, and why."""
    removals = {
        f"group {upstream.group}": partial(_remove_group, group=upstream.group),
        f"topic {upstream.topic}": partial(_remove_topic, topic=upstream.topic),
    }
    left = dict.fromkeys(removals, f"not finished within {_REMOVAL_LIMIT_S:.0f} s")
    for name, remove in removals.items():
        with trio.move_on_after(_REMOVAL_LIMIT_S, shield=True):
            try:
                async with client_of() as cluster:
                    await remove(cluster)
                del left[name]
            except DemoError as failure:
                left[name] = str(failure)
    if not left:
        log.info("topic_removed", topic=upstream.topic, group_id=upstream.group)
        return None
    listed = ", ".join(f"{name} ({reason})" for name, reason in left.items())
    log.warning("left_behind", reason=listed)
    return f"could not be removed, please remove by hand: {listed}"


async def _remove_group(cluster: Cluster, group: str) -> None:
    """Delete the group, after removing members without a process: a killed gateway leaves its
    anchor."""
    gone = {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}
    passing = {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NON_EMPTY_GROUP,
    }
    while True:
        coordinator = await cluster.coordinator_of(group)
        described = await cluster.ask(coordinator, DescribeGroupsRequest(groups=(group,)))
        members = tuple(
            MemberIdentity(member_id=member.member_id, group_instance_id=member.group_instance_id)
            for described_group in described.groups
            for member in described_group.members
        )
        if members:
            await cluster.ask(coordinator, LeaveGroupRequest(group_id=group, members=members))
        request = DeleteGroupsRequest(groups_names=(group,))
        (deleted,) = (await cluster.ask(coordinator, request)).results
        if deleted.error_code in gone:
            return
        if deleted.error_code not in passing:
            raise DemoError(f"deleting the group was refused: {_name(deleted.error_code)}")
        await trio.sleep(_LOOK_INTERVAL_S)


async def _remove_topic(cluster: Cluster, topic: str) -> None:
    request = DeleteTopicsRequest(topic_names=(topic,), timeout_ms=_REQUEST_LIMIT_MS)

    async def remove(node_id: int) -> DeletableTopicResult:
        _, version = (await cluster.versions_of(node_id)).get(ApiKey.DELETE_TOPICS, _NO_VERSION)
        version = min(version, _LAST_DELETE_TOPICS_BY_NAME)
        answer: DeleteTopicsResponse = await cluster.ask(node_id, request, version)
        return answer.responses[0]

    removed = await _at_the_controller(cluster, remove)
    if removed.error_code not in {ErrorCode.NONE, _UNKNOWN_TOPIC}:
        raise DemoError(f"deleting the topic was refused: {_explain_error(removed)}")


async def _at_the_controller(cluster: Cluster, ask: Callable[[int], Awaitable[_R]]) -> _R:
    """Ask brokers until one is the controller. With KRaft any broker forwards the request."""
    for node_id in cluster.brokers:
        result = await ask(node_id)
        if result.error_code != _NOT_CONTROLLER:
            break
    return result


def _explain_error(result: CreatableTopicResult | DeletableTopicResult) -> str:
    name = _name(result.error_code)
    return f"{name}: {result.error_message}" if result.error_message else name


def _name(error_code: int) -> str:
    """Kafka's own name of an error."""
    name: str = KafkaError(error_code).name()
    return name
