"""A broker that refuses what the test says, and its clients."""

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.support.fake_broker import replying
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import OffsetStage
from tests.support.wire import Wire

TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@dataclass(slots=True, kw_only=True)
class GuardedBroker(OffsetBroker):
    """Answers questions about permissions."""

    read_code: int = ErrorCode.UNKNOWN_MEMBER_ID
    """The error code of a Heartbeat without a member."""
    describe_code: int = ErrorCode.NONE
    hidden_topics: frozenset[str | None] = frozenset()
    questions: list[str] = field(default_factory=list)
    """The groups whose READ permission was asked for."""

    def __post_init__(self) -> None:
        OffsetBroker.__post_init__(self)
        self.handlers |= {
            ApiKey.HEARTBEAT: replying(self._heartbeat),
            ApiKey.DESCRIBE_GROUPS: self._describe_to,
            ApiKey.METADATA: replying(self._describe_topics),
        }

    async def _heartbeat(self, request: HeartbeatRequest) -> Any:
        if request.member_id == self.coordinator.group(request.group_id).member_id:
            return await self._membership(request)
        self.questions.append(request.group_id)
        return HeartbeatResponse(error_code=self.read_code)

    async def _describe_to(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        """Describe the groups to the gateway, and to its clients if they may see them."""

        def refuse(request: DescribeGroupsRequest) -> Struct:
            groups = tuple(
                replace(self._describe_group(group), error_code=self.describe_code)
                for group in request.groups
            )
            return DescribeGroupsResponse(groups=groups)

        may_describe = not self.describe_code or header.client_id == "groupferry"
        await replying(self._describe if may_describe else refuse)(wire, header, body)

    def _describe_topics(self, request: MetadataRequest) -> Struct:
        if not request.include_topic_authorized_operations:
            return self._metadata(request)
        topics = tuple(
            MetadataResponseTopic(
                name=topic.name,
                error_code=TOPIC_REFUSED if topic.name in self.hidden_topics else 0,
                partitions=(),
            )
            for topic in request.topics or ()
        )
        return MetadataResponse(topics=topics)


async def native_join(
    stage: OffsetStage, *topics: str, regex: str | None = None
) -> ConsumerGroupHeartbeatResponse:
    """A join with these topics."""
    return await stage.client.native(f"{uuid4()}", topics=topics, regex=regex, version=1)
