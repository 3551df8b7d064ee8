"""A group member whose requests the test sends one by one, to a gateway or a broker.

It sends no heartbeats of its own.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import UUID, uuid4

import trio

from coordinator.interface.events import JOIN_EPOCH
from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs import (
    consumer_group_describe,
    consumer_group_install_assignment,
    describe_groups,
)
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from kafka_codecs.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.leave_group import (
    FIRST_LEAVE_VERSION_WITH_MEMBERS,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_codecs.offset_fetch import OffsetFetchRequest
from kafka_codecs.sync_group import (
    SyncGroupResponse,
)
from tests.support.commits import commit_of
from tests.support.group_requests import (
    by_topic_id,
    fetched_topics,
    join_request,
    native_request,
    sync_request,
)
from tests.support.until import until_answered

Address = tuple[str, int]
Owned = Mapping[str, Iterable[int]]

LAST_VERSION_FOR_ONE_KEY = 3
READY_TIMEOUT_S = 20

R = TypeVar("R", bound=Struct)


class GroupClient:
    """One client of one group on one connection. It uses the highest versions by default."""

    def __init__(self, connection: BrokerConnection, group: str) -> None:
        self.connection = connection
        self.group = group

    async def _ask(self, kind: type[R], request: Struct, version: int | None = None) -> R:
        answer = await self.connection.ask(request, version)
        assert isinstance(answer, kind)
        return answer

    async def join(
        self,
        member_id: str = "",
        *,
        topics: Iterable[str] = ("numbers",),
        version: int | None = None,
        **fields: Any,
    ) -> JoinGroupResponse:
        """One JoinGroup; `fields` are those of `join_request`."""
        request = join_request(self.group, topics, member_id=member_id, **fields)
        return await self._ask(JoinGroupResponse, request, version)

    async def enter(
        self,
        *,
        protocol_type: str = "consumer",
        protocol: str = "range",
        owned: Owned | None = None,
        **fields: Any,
    ) -> JoinGroupResponse:
        """Join as the only member, with the second round that newer versions need, and sync."""
        kind: dict[str, Any] = {"protocol_type": protocol_type, "protocol": protocol}
        joined = await self.join(**kind, **fields)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = await self.join(joined.member_id, **kind, **fields)
        assert joined.error_code == 0, joined
        share = owned or {"numbers": range(3)}
        synced = await self.sync(joined, {joined.member_id: share}, **kind)
        assert synced.error_code == 0, synced
        return joined

    async def sync(
        self,
        joined: JoinGroupResponse,
        assignments: Mapping[str, Owned] | None = None,
        *,
        version: int | None = None,
        **fields: Any,
    ) -> SyncGroupResponse:
        """Send a SyncGroup, with assignments if the member leads."""
        request = sync_request(
            self.group, joined.member_id, joined.generation_id, assignments, **fields
        )
        return await self._ask(SyncGroupResponse, request, version)

    async def beat(
        self, joined: JoinGroupResponse, version: int | None = None
    ) -> HeartbeatResponse:
        return await self._ask(
            HeartbeatResponse,
            HeartbeatRequest(
                group_id=self.group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
            ),
            version,
        )

    async def leave(self, member_id: str, version: int | None = None) -> LeaveGroupResponse:
        if version is None:
            version = self.connection.highest_version(ApiKey.LEAVE_GROUP)
        one_member = version < FIRST_LEAVE_VERSION_WITH_MEMBERS
        return await self._ask(
            LeaveGroupResponse,
            LeaveGroupRequest(
                group_id=self.group,
                member_id=member_id if one_member else "",
                members=() if one_member else (MemberIdentity(member_id=member_id),),
            ),
            version,
        )

    async def native(
        self,
        member_id: str,
        epoch: int = JOIN_EPOCH,
        *,
        topics: Iterable[str] = ("numbers",),
        version: int | None = None,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """One ConsumerGroupHeartbeat; `fields` are those of `native_request`."""
        request = native_request(self.group, member_id, epoch, topics=topics, **fields)
        return await self._ask(ConsumerGroupHeartbeatResponse, request, version)

    async def prepare(self, member_id: str, epoch: int) -> ConsumerGroupPrepareAssignmentResponse:
        return await self._ask(
            ConsumerGroupPrepareAssignmentResponse,
            ConsumerGroupPrepareAssignmentRequest(
                group_id=self.group, member_id=member_id, member_epoch=epoch
            ),
        )

    async def install(
        self,
        member_id: str,
        epoch: int,
        group_epoch: int,
        shares: Sequence[tuple[str, Mapping[UUID, Sequence[int]]]],
        *,
        metadata: bytes = b"",
        error: int = 0,
    ) -> ConsumerGroupInstallAssignmentResponse:
        """One ConsumerGroupInstallAssignment, with partitions by member and topic."""
        return await self._ask(
            ConsumerGroupInstallAssignmentResponse,
            ConsumerGroupInstallAssignmentRequest(
                group_id=self.group,
                member_id=member_id,
                member_epoch=epoch,
                group_epoch=group_epoch,
                error=error,
                members=tuple(
                    consumer_group_install_assignment.Member(
                        member_id=assignee,
                        partitions=by_topic_id(share),
                        metadata_version=1,
                        metadata_bytes=metadata,
                    )
                    for assignee, share in shares
                ),
            ),
        )

    async def commit(
        self,
        offsets: Mapping[int, int],
        *,
        member_id: str = "",
        epoch: int = -1,
        instance_id: str | None = None,
        topic: str = "numbers",
        version: int | None = None,
    ) -> dict[int, int]:
        """Send an OffsetCommit and return the error codes by partition."""
        answer = await self.connection.ask(
            commit_of(
                {topic: offsets},
                group_id=self.group,
                member_id=member_id,
                epoch=epoch,
                instance_id=instance_id,
            ),
            9 if version is None else version,
        )
        return {p.partition_index: p.error_code for p in answer.topics[0].partitions}

    async def fetch_offsets(self, topic: str = "numbers", partitions: int = 3) -> dict[int, int]:
        """The committed offsets, fetched with a version that every broker supports."""
        answer = await self.connection.ask(
            OffsetFetchRequest(
                group_id=self.group,
                topics=fetched_topics({topic: range(partitions)}),
            ),
            5,
        )
        assert answer.error_code == 0, answer
        return {p.partition_index: p.committed_offset for p in answer.topics[0].partitions}

    async def delete(self) -> int:
        """The error code of a DeleteGroups of this group."""
        request = DeleteGroupsRequest(groups_names=(self.group,))
        answer = await self._ask(DeleteGroupsResponse, request)
        return answer.results[0].error_code

    async def describe(self, version: int | None = None) -> describe_groups.DescribedGroup:
        request = DescribeGroupsRequest(groups=(self.group,))
        return (await self._ask(DescribeGroupsResponse, request, version)).groups[0]

    async def described_as_consumer_group(
        self, version: int | None = None
    ) -> consumer_group_describe.DescribedGroup:
        request = ConsumerGroupDescribeRequest(
            group_ids=(self.group,), include_authorized_operations=False
        )
        return (await self._ask(ConsumerGroupDescribeResponse, request, version)).groups[0]

    async def topic_id(self, topic: str = "numbers") -> UUID:
        request = MetadataRequest(
            topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False
        )
        return (await self._ask(MetadataResponse, request, 12)).topics[0].topic_id


async def find_coordinator(
    address: Address, group: str, access: Access = PLAIN_ACCESS
) -> FindCoordinatorResponse:
    """Find a group's coordinator, and retry until there is one."""
    with trio.fail_after(READY_TIMEOUT_S):
        async with await BrokerConnection.open(*address, access=access) as connection:
            request = FindCoordinatorRequest(key=group)
            coordinator: FindCoordinatorResponse = await until_answered(
                lambda: connection.ask(request, LAST_VERSION_FOR_ONE_KEY),
                lambda answer: not answer.error_code,
            )
            return coordinator


def given_to(reply: ConsumerGroupHeartbeatResponse) -> set[int]:
    """The granted partitions of a heartbeat's answer."""
    assert reply.error_code == 0, reply
    topics = reply.assignment.topic_partitions if reply.assignment else ()
    return {partition for topic in topics for partition in topic.partitions}


@asynccontextmanager
async def group_client(
    address: Address, group: str, *, client_id: str = "client", access: Access = PLAIN_ACCESS
) -> AsyncIterator[GroupClient]:
    """A client at the group's coordinator, for the length of the block."""
    at = await find_coordinator(address, group, access)
    connection = await BrokerConnection.open(at.host, at.port, client_id=client_id, access=access)
    async with connection:
        yield GroupClient(connection, group)


def fresh_group(name: str) -> str:
    """A group id that no other test uses."""
    return f"{name}-{uuid4().hex[:8]}"


async def parked_join(client: GroupClient) -> JoinGroupResponse:
    """A JoinGroup that waits for a rebalance."""
    joined = await client.join(version=5)
    assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return await client.join(joined.member_id, version=5)


async def joined_by_two(
    a: GroupClient, id_of_a: str, b: GroupClient, id_of_b: str
) -> tuple[JoinGroupResponse, JoinGroupResponse]:
    """`a`, which is in the group and leads, and `b` join in one round and share three
    partitions."""
    joined: dict[str, JoinGroupResponse] = {}

    async def join(client: GroupClient, member_id: str) -> None:
        joined[member_id] = await client.join(member_id)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(join, b, id_of_b)
        nursery.start_soon(join, a, id_of_a)
    leader, follower = joined[id_of_a], joined[id_of_b]
    assert leader.leader == leader.member_id
    shares: dict[str, Owned] = {id_of_a: {"numbers": (0, 1)}, id_of_b: {"numbers": (2,)}}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(a.sync, leader, shares)
        nursery.start_soon(b.sync, follower)
    return leader, follower
