"""A broker that stores offsets when the test allows it, for gateways that need late answers.

It has the topic `numbers`, and others if the test adds them. Its groups have no members except
anchors. Commits wait at `gate`, if it is set.
"""

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import trio

from gateway.cluster.group_permissions import NOBODY
from gateway.cluster.own_permissions import NO_TOPIC
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
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
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafka_codecs.metadata import (
    NO_TOPIC_ID,
    MetadataRequest,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
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
)
from tests.simulation.coordinator import FakeCoordinator
from tests.support.commits import answer_commit
from tests.support.fake_broker import KAFKA_3, FakeBroker, replying

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
            ApiKey.METADATA: replying(self._metadata),
            ApiKey.FIND_COORDINATOR: replying(self._find_coordinator),
            ApiKey.DESCRIBE_GROUPS: replying(self._describe),
            ApiKey.LIST_GROUPS: replying(self._list),
            ApiKey.DELETE_GROUPS: replying(self._delete_groups),
            ApiKey.OFFSET_COMMIT: replying(self._commit),
            ApiKey.TXN_OFFSET_COMMIT: replying(self._txn_commit),
            ApiKey.OFFSET_FETCH: replying(self._fetch),
            ApiKey.OFFSET_DELETE: replying(self._delete),
            ApiKey.JOIN_GROUP: replying(self._membership),
            ApiKey.SYNC_GROUP: replying(self._membership),
            ApiKey.HEARTBEAT: replying(self._membership),
            ApiKey.LEAVE_GROUP: replying(self._membership),
        }

    def _metadata(self, request: MetadataRequest) -> Struct:
        partitions = tuple(
            MetadataResponsePartition(
                partition_index=number,
                leader_id=self.node_id,
                replica_nodes=(self.node_id,),
                isr_nodes=(self.node_id,),
            )
            for number in range(PARTITIONS)
        )
        known = {"numbers": self.topic_id, **self.other_topics}
        topics = [
            MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
            for name, topic_id in known.items()
        ]
        topics += (
            MetadataResponseTopic(
                name=topic.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partitions=()
            )
            for topic in request.topics or ()
            if topic.name is not None and topic.name not in known
        )
        return replace(self.metadata(), topics=tuple(topics))

    def _find_coordinator(self, request: FindCoordinatorRequest) -> Struct:
        host, port = self.address
        if not request.coordinator_keys:
            return FindCoordinatorResponse(node_id=self.node_id, host=host, port=port)
        return FindCoordinatorResponse(
            coordinators=tuple(
                Coordinator(key=key, node_id=self.node_id, host=host, port=port)
                for key in request.coordinator_keys
            )
        )

    async def _membership(self, request: Struct) -> Any:
        if isinstance(request, JoinGroupRequest) and self.join_gate is not None:
            await self.join_gate.wait()
        answer: Struct = self.coordinator.answer(request)
        return answer

    def _describe(self, request: DescribeGroupsRequest) -> Struct:
        groups = tuple(self._describe_group(group_id) for group_id in request.groups)
        if request.include_authorized_operations:
            groups = tuple(
                replace(group, authorized_operations=self.operations) for group in groups
            )
        return DescribeGroupsResponse(groups=groups)

    def _describe_group(self, group_id: str) -> DescribedGroup:
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

    def _list(self, _request: ListGroupsRequest) -> Struct:
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
        return ListGroupsResponse(groups=self.listed + held)

    def _delete_groups(self, request: DeleteGroupsRequest) -> Struct:
        results = tuple(
            DeletableGroupResult(group_id=group_id, error_code=self._delete_group(group_id))
            for group_id in request.groups_names
        )
        self.deleted.append(request.groups_names)
        return DeleteGroupsResponse(results=results)

    def _delete_group(self, group_id: str) -> int:
        if self.coordinator.group(group_id).member_id:
            return ErrorCode.NON_EMPTY_GROUP
        del self.coordinator.groups[group_id]
        return 0 if group_id in self.known_groups else ErrorCode.GROUP_ID_NOT_FOUND

    async def _commit(self, request: OffsetCommitRequest) -> Struct:
        if request.member_id == NOBODY:  # a question about permissions
            return answer_commit(request, self._code_of_question)
        code = await self._take(request)
        return answer_commit(request, lambda _topic: code)

    def _code_of_question(self, topic: str) -> int:
        """A broker looks for the topic before it looks for the member."""
        if topic == "numbers" or topic in self.other_topics:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def _txn_commit(self, request: TxnOffsetCommitRequest) -> Struct:
        is_question = request.topics and request.topics[0].name == NO_TOPIC
        code = self.transaction_code if is_question else await self._take(request)
        return answer_commit(request, lambda _topic: code)

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

    def _fetch(self, request: OffsetFetchRequest) -> Struct:
        code = self.fetch_error
        if request.groups:
            groups = tuple(
                OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
                for group in request.groups
            )
            return OffsetFetchResponse(groups=groups)
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
        return OffsetFetchResponse(error_code=code, topics=() if code else topics)

    def _delete(self, request: OffsetDeleteRequest) -> Struct:
        if self.coordinator.group(request.group_id).member_id:
            return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
        if request.topics:  # a question about permissions names none
            self.deleted.append(tuple(topic.name for topic in request.topics))
        if not self.knows_group:
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        return OffsetDeleteResponse(
            topics=tuple(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetDeleteResponsePartition(partition_index=partition.partition_index)
                        for partition in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
