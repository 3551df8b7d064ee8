"""Requests for the description of a group over a real connection."""

from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from gateway.demo.group_description import GroupDescription
from gateway.demo.group_view import ObservedGroup
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeResponse
from kafka_codecs.consumer_group_describe import DescribedGroup as ConsumerGroup
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup as ClassicGroup
from kafka_codecs.describe_groups import DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorResponse
from kafka_codecs.header import RequestHeader
from tests.support.fake_broker import FakeBroker, answer, running_fake_broker
from tests.support.wire import Wire


class Coordinator(FakeBroker):
    """A coordinator of group `g` with the test's answers to describe requests."""

    def __init__(self) -> None:
        super().__init__(
            versions={
                ApiKey.API_VERSIONS: (0, 3),
                ApiKey.FIND_COORDINATOR: (0, 6),
                ApiKey.DESCRIBE_GROUPS: (0, 6),
                ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
            }
        )
        self.consumer_group = ConsumerGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        self.classic_group = ClassicGroup(group_id="g", group_state="Stable")
        self.handlers = {
            ApiKey.FIND_COORDINATOR: self._name_coordinator,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self._described_as_consumer_group,
            ApiKey.DESCRIBE_GROUPS: self._described_as_classic_group,
        }

    def count_requests(self, key: ApiKey) -> int:
        """Count the requests of an api."""
        return sum(header.api_key == key for header in self.seen)

    async def _name_coordinator(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        host, port = self.address
        await answer(wire, header, FindCoordinatorResponse(node_id=1, host=host, port=port))

    async def _described_as_consumer_group(
        self, wire: Wire, header: RequestHeader, body: bytes
    ) -> None:
        response: Struct = ConsumerGroupDescribeResponse(groups=(self.consumer_group,))
        await answer(wire, header, response)

    async def _described_as_classic_group(
        self, wire: Wire, header: RequestHeader, body: bytes
    ) -> None:
        await answer(wire, header, DescribeGroupsResponse(groups=(self.classic_group,)))


@pytest.fixture
async def coordinator() -> AsyncIterator[Coordinator]:
    broker = Coordinator()
    async with running_fake_broker(broker):
        yield broker


def description_of(broker: Coordinator) -> closing[GroupDescription]:
    host, port = broker.address
    return closing(GroupDescription(f"{host}:{port}", "g"))


async def test_a_consumer_group_needs_one_request(coordinator: Coordinator) -> None:
    """Any number of descriptions use one connection."""
    coordinator.consumer_group = ConsumerGroup(group_id="g", group_state="Assigning")
    with description_of(coordinator) as description:
        for _ in range(3):
            observed = await description.fetch()
            assert observed == ObservedGroup(protocol="consumer", state="Assigning", members=())
    assert coordinator.count_requests(ApiKey.FIND_COORDINATOR) == 1
    assert coordinator.count_requests(ApiKey.CONSUMER_GROUP_DESCRIBE) == 3
    assert coordinator.count_requests(ApiKey.DESCRIBE_GROUPS) == 0
    await coordinator.down_to(0)


async def test_a_classic_group_is_described_by_the_classic_request(
    coordinator: Coordinator,
) -> None:
    """ConsumerGroupDescribe answers GROUP_ID_NOT_FOUND for it."""
    with description_of(coordinator) as description:
        observed = await description.fetch()
    assert observed == ObservedGroup(protocol="classic", state="Stable", members=())


@pytest.mark.parametrize(
    "error_code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
)
async def test_an_error_is_reported_and_the_coordinator_looked_up(
    coordinator: Coordinator, error_code: int
) -> None:
    """The coordinator may have moved."""
    coordinator.consumer_group = ConsumerGroup(group_id="g", error_code=error_code)
    with description_of(coordinator) as description:
        assert await description.fetch() == (
            f"ConsumerGroupDescribe was answered with error {error_code}"
        )
        coordinator.consumer_group = ConsumerGroup(group_id="g", group_state="Stable")
        assert isinstance(await description.fetch(), ObservedGroup)
    assert coordinator.count_requests(ApiKey.FIND_COORDINATOR) == 2


async def test_an_unreachable_gateway_is_reported() -> None:
    """The step waits and retries."""
    with closing(GroupDescription("127.0.0.1:1", "g")) as description:
        assert "cannot connect to 127.0.0.1:1" in str(await description.fetch())
