"""A broker that refuses what the test says, and its clients."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from uuid import uuid4

from coordinator.interface.config import GroupConfig
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.support.fake_broker import Handler, answer
from tests.support.gateway import QUICK
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import OffsetStage, offset_stage
from tests.support.wire import Wire

TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@dataclass(slots=True, kw_only=True)
class GuardedBroker(OffsetBroker):
    """Answers questions about permissions."""

    read_code: int = ErrorCode.UNKNOWN_MEMBER_ID
    """What a Heartbeat of nobody gets."""
    describe_code: int = ErrorCode.NONE
    hidden_topics: frozenset[str | None] = frozenset()
    questions: list[str] = field(default_factory=list)
    """The groups whose READ permission was asked for."""

    def __post_init__(self) -> None:
        OffsetBroker.__post_init__(self)
        self.handlers |= {
            ApiKey.HEARTBEAT: self._heartbeat,
            ApiKey.DESCRIBE_GROUPS: self._guarded(self.handlers[ApiKey.DESCRIBE_GROUPS]),
            ApiKey.METADATA: self._topics(self.handlers[ApiKey.METADATA]),
        }

    async def _heartbeat(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(HeartbeatRequest, body, header.api_version)
        held = self.coordinator.group(request.group_id)
        if request.member_id == held.member_id:
            await self._membership(wire, header, body)
            return
        self.questions.append(request.group_id)
        await answer(wire, header, HeartbeatResponse(error_code=self.read_code))

    def _guarded(self, describe: Handler) -> Handler:
        async def handle(wire: Wire, header: RequestHeader, body: bytes) -> None:
            if not self.describe_code or header.client_id == "groupferry":
                await describe(wire, header, body)
                return
            request = decode(DescribeGroupsRequest, body, header.api_version)
            groups = tuple(
                replace(self._described(group), error_code=self.describe_code)
                for group in request.groups
            )
            await answer(wire, header, DescribeGroupsResponse(groups=groups))

        return handle

    def _topics(self, tell: Handler) -> Handler:
        async def handle(wire: Wire, header: RequestHeader, body: bytes) -> None:
            request = decode(MetadataRequest, body, header.api_version)
            if not request.include_topic_authorized_operations:
                await tell(wire, header, body)
                return
            topics = tuple(
                MetadataResponseTopic(
                    name=topic.name,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    if topic.name in self.hidden_topics
                    else 0,
                    partitions=(),
                )
                for topic in request.topics or ()
            )
            await answer(wire, header, MetadataResponse(topics=topics))

        return handle


@asynccontextmanager
async def stage_of(
    broker: GuardedBroker,
    lifetime_s: float = 60,
    groups: GroupConfig = QUICK,
    private_topics: tuple[str, ...] = (),
) -> AsyncIterator[OffsetStage]:
    """A client of the group g."""
    async with offset_stage(
        broker, permission_lifetime_s=lifetime_s, groups=groups, private_topics=private_topics
    ) as stage:
        yield stage


async def native_join(
    stage: OffsetStage, *topics: str, regex: str | None = None
) -> ConsumerGroupHeartbeatResponse:
    """A join with these topics."""
    asked = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=f"{uuid4()}",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=topics,
        subscribed_topic_regex=regex,
        topic_partitions=(),
    )
    joined: ConsumerGroupHeartbeatResponse = await stage.client.connection.ask(asked, 1)
    return joined
