"""Requests of a newer version than the upstream speaks."""

import pytest

from gateway.data_path.conversions import COORDINATOR_KEYS_MAX
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.header import RequestHeader
from tests.support.data_path import running_gateway
from tests.support.fake_broker import FakeBroker, answer, running_fake_broker
from tests.support.wire import Wire, connected


class OldBroker:
    """A broker that finds one coordinator at a time, itself, except for keys that begin with x."""

    def __init__(self, highest: int = 3) -> None:
        self.broker = FakeBroker(handlers={ApiKey.FIND_COORDINATOR: self._find})
        self.broker.versions = {**self.broker.versions, ApiKey.FIND_COORDINATOR: (0, highest)}
        self.asked: list[str] = []

    async def _find(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(FindCoordinatorRequest, body, header.api_version)
        self.asked.append(request.key)
        host, port = self.broker.address
        found = FindCoordinatorResponse(node_id=1, host=host, port=port, error_message=None)
        nobody = FindCoordinatorResponse(
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, error_message="none"
        )
        await answer(wire, header, nobody if request.key.startswith("x") else found)


@pytest.mark.parametrize("highest", [1, 3])
@pytest.mark.parametrize("version", [4, 6])
async def test_a_batch_of_coordinators_is_found_one_by_one(highest: int, version: int) -> None:
    """Each with its own error; addresses are ours; a key that comes twice is asked once."""
    old = OldBroker(highest)
    async with running_fake_broker(old.broker), running_gateway([old.broker.address]) as gateway:
        async with connected(gateway.address) as client:
            asked = FindCoordinatorRequest(coordinator_keys=("a", "x", "b", "a"))
            answered = await client.ask(asked, version)
    assert old.asked == ["a", "x", "b"]
    told = {each.key: (each.node_id, each.error_code) for each in answered.coordinators}
    assert told == {"a": (1, 0), "x": (-1, 15), "b": (1, 0)}
    assert {each.port for each in answered.coordinators}.isdisjoint({old.broker.address[1]})


async def test_a_single_key_is_relayed_as_before() -> None:
    """In a version that the upstream speaks nothing is converted."""
    old = OldBroker()
    async with running_fake_broker(old.broker), running_gateway([old.broker.address]) as gateway:
        async with connected(gateway.address) as client:
            answered = await client.ask(FindCoordinatorRequest(key="a"), 2)
    assert answered.node_id == 1
    assert answered.port != old.broker.address[1]


async def test_share_groups_are_not_asked_of_who_does_not_know_them() -> None:
    """INVALID_REQUEST, as a broker that does not know the type."""
    old = OldBroker()
    async with running_fake_broker(old.broker), running_gateway([old.broker.address]) as gateway:
        async with connected(gateway.address) as client:
            asked = FindCoordinatorRequest(key_type=2, coordinator_keys=("g:t:0",))
            answered = await client.ask(asked, 6)
    assert [each.error_code for each in answered.coordinators] == [42]
    assert old.asked == []


async def test_more_keys_than_are_asked_one_by_one_close_the_connection() -> None:
    """Each costs a round trip; the limit has a name."""
    old = OldBroker()
    async with running_fake_broker(old.broker), running_gateway([old.broker.address]) as gateway:
        async with connected(gateway.address) as client:
            keys = tuple(str(number) for number in range(COORDINATOR_KEYS_MAX + 1))
            with pytest.raises(EOFError):
                await client.ask(FindCoordinatorRequest(coordinator_keys=keys), 4)
    assert old.asked == []
