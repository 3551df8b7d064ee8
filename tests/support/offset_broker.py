"""A broker that stores offsets when the test allows it, for gateways that need late answers.

It has the topic `numbers`, and others if the test adds them. Its groups have no members except
anchors. Commits wait at `gate`, if it is set.
"""

from dataclasses import dataclass, field, replace
from uuid import UUID

import trio

from gateway.cluster.own_permissions import NO_TOPIC
from gateway.requests.authorization import NOBODY
from kafka_codecs import decode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_codecs.header import RequestHeader
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafka_codecs.metadata import (
    NO_TOPIC_ID,
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.simulation.coordinator import FakeCoordinator
from tests.support.fake_broker import KAFKA_3, FakeBroker, answer
from tests.support.wire import Wire

VERSIONS = {
    **KAFKA_3,
    ApiKey.FIND_COORDINATOR: (0, 3),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.LIST_GROUPS: (0, 4),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.OFFSET_FETCH: (0, 6),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.TXN_OFFSET_COMMIT: (0, 3),
}
PARTITIONS = 3


@dataclass(slots=True, kw_only=True)
class OffsetBroker(FakeBroker):
    """The broker's requests and its answers."""

    gate: trio.Event | None = None
    loses_commits: bool = False
    """Close the connection instead of answering a commit."""
    commits: list[OffsetCommitRequest | TxnOffsetCommitRequest] = field(default_factory=list)
    asked: trio.Event = field(default_factory=trio.Event)
    """Set when a commit has arrived."""
    offsets: dict[int, int] = field(default_factory=dict)
    fetch_error: int = 0
    commit_error: int = 0
    transaction_code: int = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    """What a question about the permission on a transactional id gets."""
    topic_id: UUID = NO_TOPIC_ID
    other_topics: dict[str, UUID] = field(default_factory=dict)
    """Further topics with as many partitions."""
    operations: int = -(2**31)
    """The authorized operations for every group, if a client requests them."""
    join_gate: trio.Event | None = None
    """If set, JoinGroup requests wait for this event."""
    coordinator: FakeCoordinator = field(default_factory=FakeCoordinator)
    occupants: tuple[str, ...] = ()
    """Client ids of members that every group shows."""
    deleted: list[tuple[str, ...]] = field(default_factory=list)
    listed: tuple[ListedGroup, ...] = ()
    known_groups: frozenset[str] = frozenset()
    knows_group: bool = True
    """Whether OffsetDelete knows the group."""

    def __post_init__(self) -> None:
        self.versions = dict(VERSIONS)
        self.handlers = {
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.DESCRIBE_GROUPS: self._describe,
            ApiKey.LIST_GROUPS: self._list,
            ApiKey.DELETE_GROUPS: self._delete_groups,
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.TXN_OFFSET_COMMIT: self._txn_commit,
            ApiKey.OFFSET_FETCH: self._fetch,
            ApiKey.OFFSET_DELETE: self._delete,
            ApiKey.JOIN_GROUP: self._membership,
            ApiKey.SYNC_GROUP: self._membership,
            ApiKey.HEARTBEAT: self._membership,
            ApiKey.LEAVE_GROUP: self._membership,
        }

    async def _metadata(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        host_and_port = self.metadata()
        request = decode(MetadataRequest, body, header.api_version)
        known = {"numbers": self.topic_id, **self.other_topics}
        asked = [topic.name for topic in request.topics or () if topic.name not in known]
        partitions = tuple(
            MetadataResponsePartition(
                partition_index=number,
                leader_id=self.node_id,
                replica_nodes=(self.node_id,),
                isr_nodes=(self.node_id,),
            )
            for number in range(PARTITIONS)
        )
        message = MetadataResponse(
            brokers=host_and_port.brokers,
            cluster_id=self.cluster_id,
            topics=tuple(
                MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
                for name, topic_id in known.items()
            )
            + tuple(
                MetadataResponseTopic(
                    name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partitions=()
                )
                for name in asked
                if name is not None
            ),
        )
        await answer(wire, header, message)

    async def _find_coordinator(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        host, port = self.address
        asked = decode(FindCoordinatorRequest, body, header.api_version)
        if asked.coordinator_keys:
            found = FindCoordinatorResponse(
                coordinators=tuple(
                    Coordinator(key=key, node_id=self.node_id, host=host, port=port)
                    for key in asked.coordinator_keys
                )
            )
        else:
            found = FindCoordinatorResponse(node_id=self.node_id, host=host, port=port)
        await answer(wire, header, found)

    async def _membership(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = APIS[ApiKey(header.api_key)].request
        assert request is not None
        message = decode(request, body, header.api_version)
        if header.api_key == ApiKey.JOIN_GROUP and self.join_gate is not None:
            await self.join_gate.wait()
        await answer(wire, header, self.coordinator.answer(message))

    async def _describe(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(DescribeGroupsRequest, body, header.api_version)
        groups = tuple(self._described(group_id) for group_id in request.groups)
        if request.include_authorized_operations:
            groups = tuple(
                replace(group, authorized_operations=self.operations) for group in groups
            )
        await answer(wire, header, DescribeGroupsResponse(groups=groups))

    def _described(self, group_id: str) -> DescribedGroup:
        held = self.coordinator.group(group_id)
        if held.member_id:
            return self.coordinator.describe(group_id)
        members = tuple(
            DescribedGroupMember(
                member_id=client_id,
                client_id=client_id,
                client_host="/",
                member_metadata=b"",
                member_assignment=b"",
            )
            for client_id in self.occupants
        )
        return DescribedGroup(
            group_id=group_id,
            group_state="Stable" if members else "Dead",
            protocol_type="consumer" if members else "",
            members=members,
        )

    async def _list(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        decode(ListGroupsRequest, body, header.api_version)
        named = {group.group_id for group in self.listed}
        held = tuple(
            ListedGroup(
                group_id=group_id,
                protocol_type=group.protocol_type,
                group_state="Stable" if group.member_id else "Empty",
                group_type="classic",
            )
            for group_id, group in self.coordinator.groups.items()
            if group.joins and group_id not in named
        )
        await answer(wire, header, ListGroupsResponse(groups=self.listed + held))

    async def _delete_groups(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(DeleteGroupsRequest, body, header.api_version)
        results = tuple(
            DeletableGroupResult(group_id=group_id, error_code=self._delete_group(group_id))
            for group_id in request.groups_names
        )
        self.deleted.append(request.groups_names)
        await answer(wire, header, DeleteGroupsResponse(results=results))

    def _delete_group(self, group_id: str) -> int:
        if self.coordinator.group(group_id).member_id:
            return ErrorCode.NON_EMPTY_GROUP
        del self.coordinator.groups[group_id]
        return 0 if group_id in self.known_groups else ErrorCode.GROUP_ID_NOT_FOUND

    def _topic_code(self, name: str, otherwise: int) -> int:
        """What a broker says of a topic before it looks for the member."""
        if name == "numbers" or name in self.other_topics:
            return otherwise
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def _commit(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(OffsetCommitRequest, body, header.api_version)
        is_question = request.member_id == NOBODY
        code = ErrorCode.UNKNOWN_MEMBER_ID if is_question else await self._take(request)
        topics = tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=p.partition_index,
                        error_code=self._topic_code(topic.name, code) if is_question else code,
                    )
                    for p in topic.partitions
                ),
            )
            for topic in request.topics
        )
        await answer(wire, header, OffsetCommitResponse(topics=topics))

    async def _txn_commit(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(TxnOffsetCommitRequest, body, header.api_version)
        is_question = request.topics and request.topics[0].name == NO_TOPIC
        code = self.transaction_code if is_question else await self._take(request)
        topics = tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=p.partition_index, error_code=code
                    )
                    for p in topic.partitions
                ),
            )
            for topic in request.topics
        )
        await answer(wire, header, TxnOffsetCommitResponse(topics=topics))

    async def _take(self, request: OffsetCommitRequest | TxnOffsetCommitRequest) -> int:
        self.commits.append(request)
        self.asked.set()
        if self.loses_commits:
            raise EOFError
        if self.gate is not None:
            await self.gate.wait()
        code = self.commit_error or self.coordinator.check_commit(request)
        if code:
            return code
        for partition in request.topics[0].partitions:
            self.offsets[partition.partition_index] = partition.committed_offset
        return 0

    async def _fetch(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(OffsetFetchRequest, body, header.api_version)
        topics = tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=number,
                        committed_offset=self.offsets.get(number, -1),
                        metadata="",
                    )
                    for number in topic.partition_indexes
                ),
            )
            for topic in request.topics or ()
        )
        code = self.fetch_error
        message = OffsetFetchResponse(error_code=code, topics=() if code else topics)
        if request.groups:
            groups = tuple(
                OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
                for group in request.groups
            )
            message = OffsetFetchResponse(groups=groups)
        await answer(wire, header, message)

    async def _delete(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(OffsetDeleteRequest, body, header.api_version)
        if self.coordinator.group(request.group_id).member_id:
            await answer(wire, header, OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP))
            return
        if request.topics:  # a question about permissions names none
            self.deleted.append(tuple(topic.name for topic in request.topics))
        topics = tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(partition_index=p.partition_index)
                    for p in topic.partitions
                ),
            )
            for topic in request.topics
        )
        message = OffsetDeleteResponse(topics=topics)
        if not self.knows_group:
            message = OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        await answer(wire, header, message)
