"""A gateway in front of a broker that refuses what the test says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pytest
import trio

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
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import OffsetStage, offset_stage
from tests.support.wire import Wire

READ_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
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
                replace(self._described(each), error_code=self.describe_code)
                for each in request.groups
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
                    name=each.name,
                    error_code=TOPIC_REFUSED if each.name in self.hidden_topics else 0,
                    partitions=(),
                )
                for each in request.topics or ()
            )
            await answer(wire, header, MetadataResponse(topics=topics))

        return handle


@asynccontextmanager
async def stage_of(broker: GuardedBroker, lifetime_s: float = 60) -> AsyncIterator[OffsetStage]:
    """A client of the group g."""
    async with offset_stage(broker, permission_lifetime_s=lifetime_s) as stage:
        yield stage


async def native_join(stage: OffsetStage, *topics: str) -> ConsumerGroupHeartbeatResponse:
    """A join with these topics."""
    asked = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=f"{uuid4()}",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=topics,
        topic_partitions=(),
    )
    joined: ConsumerGroupHeartbeatResponse = await stage.client.connection.ask(asked, 1)
    return joined


async def test_a_refused_request_leaves_no_trace() -> None:
    """No group, no anchor, no commit; and a permission that is given counts at once."""
    broker = GuardedBroker(read_code=READ_REFUSED)
    async with stage_of(broker) as stage:
        assert (await stage.client.join()).error_code == READ_REFUSED
        assert (await native_join(stage, "numbers")).error_code == READ_REFUSED
        assert await stage.client.commit({0: 1}) == {0: READ_REFUSED}
        assert (await stage.client.leave("m")).error_code == READ_REFUSED
        assert stage.gateway.events == []
        assert broker.coordinator.group("g").joins == 0
        assert broker.commits == []
        broker.read_code = ErrorCode.UNKNOWN_MEMBER_ID
        await stage.client.enter()


async def test_the_cluster_is_asked_once_in_a_lifetime() -> None:
    """A heartbeat costs no request to the cluster, and a lost permission ends the membership."""
    broker = GuardedBroker()
    async with stage_of(broker, lifetime_s=0.3) as stage:
        joined = await stage.client.enter()
        asked = len(broker.questions)
        for _ in range(3):
            assert (await stage.client.beat(joined)).error_code == 0
        assert len(broker.questions) <= asked + 1
        broker.read_code = READ_REFUSED
        await trio.sleep(0.3)
        assert (await stage.client.beat(joined)).error_code == READ_REFUSED


async def test_a_topic_that_the_client_may_not_describe_refuses_the_heartbeat() -> None:
    """Whether it exists or not."""
    async with stage_of(GuardedBroker(hidden_topics=frozenset({"secret"}))) as stage:
        assert (await native_join(stage, "numbers", "secret")).error_code == TOPIC_REFUSED
        assert stage.gateway.events == []
        assert (await native_join(stage, "numbers", "never")).error_code == 0


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST])
async def test_an_unclear_answer_allows_nothing(code: ErrorCode) -> None:
    """The client tries again."""
    async with stage_of(GuardedBroker(read_code=code)) as stage:
        assert (await stage.client.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_members_go_on_while_the_cluster_does_not_tell() -> None:
    """Nobody joins meanwhile."""
    broker = GuardedBroker()
    async with stage_of(broker, lifetime_s=0.2) as stage:
        joined = await stage.client.enter()
        broker.read_code = ErrorCode.UNKNOWN_SERVER_ERROR
        await trio.sleep(0.2)
        assert (await stage.client.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await stage.client.beat(joined)).error_code == 0
        asked = len(broker.questions)
        assert (await stage.client.beat(joined)).error_code == 0
        assert len(broker.questions) == asked, "a broker that hangs must not delay each heartbeat"


async def test_groups_that_the_client_may_not_describe_are_withheld() -> None:
    """Also from lists."""
    broker = GuardedBroker()
    async with stage_of(broker) as stage:
        await stage.client.enter()
        broker.describe_code = READ_REFUSED
        shown = await stage.client.described(5)
        assert (shown.error_code, shown.members) == (READ_REFUSED, ())
        natives = await stage.client.described_as_consumer_group(0)
        assert (natives.error_code, natives.members) == (READ_REFUSED, ())
