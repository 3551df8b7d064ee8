"""A new writer waits no longer than the cluster for the end of the last one's transaction."""

from collections.abc import Sequence

import pytest
import trio

from gateway.cluster.access import PLAIN_ACCESS
from gateway.state_log.kafka import former_writer
from gateway.state_log.kafka.former_writer import fence_former_writer
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.fake_broker import KAFKA_3, FakeBroker, replying, running_fake_broker

LIMIT_S = 10
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS


class Coordinator(FakeBroker):
    """A broker that answers with these codes, one after another."""

    def __init__(self, *codes: ErrorCode, coordinates: bool = True) -> None:
        """`coordinates`: whether it knows the coordinator, which it is itself."""
        super().__init__(versions={**KAFKA_3, ApiKey.INIT_PRODUCER_ID: (0, 4)})
        self.asked: list[InitProducerIdRequest] = []
        self._codes = list(codes)
        self._coordinates = coordinates
        self.handlers = {
            ApiKey.FIND_COORDINATOR: replying(self._find),
            ApiKey.INIT_PRODUCER_ID: replying(self._init),
        }

    def _find(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        assert (request.key, request.key_type) == ("state-3", 1)
        host, port = self.address
        code = ErrorCode.NONE if self._coordinates else ErrorCode.COORDINATOR_NOT_AVAILABLE
        return FindCoordinatorResponse(error_code=code, node_id=1, host=host, port=port)

    def _init(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        self.asked.append(request)
        return InitProducerIdResponse(error_code=self._codes.pop(0))


async def fence(*addresses: tuple[str, int]) -> None:
    """Fence the last writer of a shard."""
    with trio.fail_after(LIMIT_S):
        await fence_former_writer(addresses, PLAIN_ACCESS, "state-3", timeout_ms=60_000)


@pytest.mark.parametrize(
    "codes",
    [
        (ErrorCode.NONE,),
        (BUSY, BUSY, ErrorCode.NONE),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,),
    ],
)
async def test_the_cluster_is_asked_until_the_transaction_has_ended(
    codes: Sequence[ErrorCode],
) -> None:
    """Any other error is left to librdkafka, which says what it means."""
    broker = Coordinator(*codes)
    async with running_fake_broker(broker):
        await fence(broker.address)
    assert [request.transactional_id for request in broker.asked] == ["state-3"] * len(codes)
    assert {request.transaction_timeout_ms for request in broker.asked} == {60_000}


async def test_a_broker_that_does_not_answer_is_passed_over() -> None:
    """The others may know the coordinator."""
    async with running_fake_broker(FakeBroker()) as gone:
        pass
    broker = Coordinator(ErrorCode.NONE)
    async with running_fake_broker(broker):
        await fence(gone.address, broker.address)
    assert len(broker.asked) == 1


async def test_without_a_coordinator_librdkafka_continues_alone() -> None:
    """Nothing is asked."""
    broker = Coordinator(coordinates=False)
    async with running_fake_broker(broker):
        await fence(broker.address)
    assert broker.asked == []


async def test_a_transaction_that_does_not_end_is_waited_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """librdkafka waits on."""
    monkeypatch.setattr(former_writer, "WAIT_S", 0.2)
    monkeypatch.setattr(former_writer, "ASK_AGAIN_S", 0.01)
    broker = Coordinator(*[BUSY] * 1_000)
    async with running_fake_broker(broker):
        await fence(broker.address)
    assert broker.asked


async def test_a_request_on_its_way_is_awaited_when_cancelled() -> None:
    """The request would fence the next writer if it came later."""
    broker = Coordinator(BUSY, ErrorCode.NONE)
    async with running_fake_broker(broker):
        with trio.CancelScope() as scope:
            scope.cancel()
            await fence(broker.address)
    assert len(broker.asked) == 2
