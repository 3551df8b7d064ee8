"""Requests in newer versions than the upstream supports."""

import pytest
import trio

from gateway.data_path import conversions, upstream
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.header import RequestHeader
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.fake_broker import FakeBroker, answer, running_fake_broker, together
from tests.support.wire import Wire, open_wire


class OldBroker:
    """A broker that finds one coordinator per request: itself, except for keys that begin with
    x."""

    def __init__(self, highest: int = 3) -> None:
        self.broker = FakeBroker(handlers={ApiKey.FIND_COORDINATOR: self._find})
        self.broker.versions = {**self.broker.versions, ApiKey.FIND_COORDINATOR: (0, highest)}
        self.asked: list[str] = []

    async def _find(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(FindCoordinatorRequest, body, header.api_version)
        self.asked.append(request.key)
        host, port = self.broker.address
        coordinator = FindCoordinatorResponse(node_id=1, host=host, port=port, error_message=None)
        nobody = FindCoordinatorResponse(
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, error_message="none"
        )
        await answer(wire, header, nobody if request.key.startswith("x") else coordinator)


@pytest.mark.parametrize("highest", [1, 3])
@pytest.mark.parametrize("version", [4, 6])
async def test_a_batch_of_coordinators_is_split(highest: int, version: int) -> None:
    """Each key has its own error. Addresses are the gateway's, and a repeated key is requested
    once."""
    old = OldBroker(highest)
    async with running_fake_broker(old.broker), running_gateway([old.broker.address]) as gateway:
        async with open_wire(gateway.address) as client:
            asked = FindCoordinatorRequest(coordinator_keys=("a", "x", "b", "a"))
            answered = await client.ask(asked, version)
    assert old.asked == ["a", "x", "b"]
    coordinators = {
        coordinator.key: (coordinator.node_id, coordinator.error_code)
        for coordinator in answered.coordinators
    }
    assert coordinators == {"a": (1, 0), "x": (-1, 15), "b": (1, 0)}
    assert {coordinator.port for coordinator in answered.coordinators}.isdisjoint(
        {old.broker.address[1]}
    )


@pytest.mark.parametrize("highest", [0, 1, 2, 3])
@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_a_single_key_is_relayed(highest: int, version: int) -> None:
    """If the upstream lacks the version, in its highest one. Sarama asks in v3, which Kafka has
    since 2.4."""
    old = OldBroker(highest)
    async with running_fake_broker(old.broker), running_gateway([old.broker.address]) as gateway:
        async with open_wire(gateway.address) as client:
            answered = await client.ask(FindCoordinatorRequest(key="a"), version)
    assert old.asked == ["a"]
    assert answered.node_id == 1
    assert answered.port != old.broker.address[1]


async def test_share_groups_are_refused_where_the_upstream_lacks_them() -> None:
    """The answer is INVALID_REQUEST, as from a broker that does not know the type."""
    old = OldBroker()
    async with running_fake_broker(old.broker), running_gateway([old.broker.address]) as gateway:
        async with open_wire(gateway.address) as client:
            asked = FindCoordinatorRequest(key_type=2, coordinator_keys=("g:t:0",))
            answered = await client.ask(asked, 6)
    assert [coordinator.error_code for coordinator in answered.coordinators] == [42]
    assert old.asked == []


async def test_requests_for_many_coordinators_are_pipelined() -> None:
    """One by one, the client would wait for a round trip per key."""
    old = OldBroker()
    handler = old.broker.handlers[ApiKey.FIND_COORDINATOR]
    old.broker.handlers[ApiKey.FIND_COORDINATOR] = together(3, handler)
    with trio.fail_after(10):
        async with running_fake_broker(old.broker), running_gateway([old.broker.address]) as on:
            async with open_wire(on.address) as client:
                asked = FindCoordinatorRequest(coordinator_keys=("a", "b", "c"))
                answered = await client.ask(asked, 4)
    assert {
        coordinator.key: coordinator.node_id for coordinator in answered.coordinators
    } == dict.fromkeys("abc", 1)


@pytest.mark.parametrize("together_max", [1, 2, 10])
async def test_keys_beyond_the_limit_get_a_retriable_error(
    monkeypatch: pytest.MonkeyPatch, together_max: int
) -> None:
    """Admin clients retry those keys alone, so any number of groups is found in the end."""
    monkeypatch.setattr(conversions, "COORDINATOR_KEYS_MAX", 3)
    monkeypatch.setattr(upstream, "ASKED_TOGETHER_MAX", together_max)
    old = OldBroker()
    async with running_fake_broker(old.broker), running_gateway([old.broker.address]) as gateway:
        async with open_wire(gateway.address) as client:
            asked = FindCoordinatorRequest(coordinator_keys=("a", "b", "c", "d"))
            answered = await client.ask(asked, 4)
    assert old.asked == ["a", "b", "c"]
    coordinators = {
        coordinator.key: (coordinator.node_id, coordinator.error_code)
        for coordinator in answered.coordinators
    }
    nobody = (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert coordinators == {"a": (1, 0), "b": (1, 0), "c": (1, 0), "d": nobody}
