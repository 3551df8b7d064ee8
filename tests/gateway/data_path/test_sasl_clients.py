"""Clients that authenticate at the cluster, in front of a broker that fails on demand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from gateway.data_path.config import DataPathConfig, Limits
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import RequestHeader
from kafka_codecs.metadata import MetadataRequest
from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_codecs.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.gateway.data_path.running_data_path import RunningGateway, running_gateway
from tests.support.fake_broker import KAFKA_3, FakeBroker, answer, running_fake_broker
from tests.support.wire import Wire, open_wire, request_frame

SASL = {ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2)}


async def agree(wire: Wire, header: RequestHeader, body: bytes) -> None:
    await answer(wire, header, SaslHandshakeResponse(mechanisms=("PLAIN", "GSSAPI")))


async def accept(wire: Wire, header: RequestHeader, body: bytes) -> None:
    await answer(wire, header, SaslAuthenticateResponse())


@asynccontextmanager
async def sasl_gateway(limits: Limits) -> AsyncIterator[tuple[RunningGateway, FakeBroker]]:
    """A data path whose clients must authenticate at a broker that accepts everyone."""
    broker = FakeBroker(
        versions={**KAFKA_3, **SASL},
        handlers={ApiKey.SASL_HANDSHAKE: agree, ApiKey.SASL_AUTHENTICATE: accept},
    )
    config = DataPathConfig(
        listen_port=0, advertised_host="127.0.0.1", clients_authenticate=True, limits=limits
    )
    async with running_fake_broker(broker):
        async with running_gateway([broker.address], config=config, poll_interval_s=60) as gateway:
            yield gateway, broker


async def authenticate(client: Wire, user: bytes = b"me") -> None:
    """Authenticate with PLAIN."""
    agreed = await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert agreed.mechanisms == ("PLAIN",)  # what cannot be relayed is not offered
    await client.ask(SaslAuthenticateRequest(auth_bytes=b"\0%b\0pw" % user), 1)


async def test_a_request_before_the_authentication_closes_the_connection() -> None:
    """The early request does not reach the broker."""
    async with sasl_gateway(Limits()) as (gateway, broker), open_wire(gateway.address) as client:
        before = len([request for request in broker.seen if request.api_key == ApiKey.METADATA])
        with capture_logs() as lines:
            await client.send(request_frame(ApiKey.METADATA, 1, 7, b"\0\0\0\0"))
            assert await client.at_end()
        after = len([request for request in broker.seen if request.api_key == ApiKey.METADATA])
        assert after == before
    (line,) = [line for line in lines if line["event"] == "request_refused"]
    assert line["reason"] == "the client has to authenticate first"


async def test_a_client_that_does_not_authenticate_is_closed() -> None:
    """Whether it is silent or asks for versions."""
    limits = Limits(handshake_timeout_s=0.1, half_sent_timeout_s=0.3)
    async with sasl_gateway(limits) as (gateway, _), open_wire(gateway.address) as client:
        assert await client.at_end()


async def test_a_lost_connection_to_the_broker_takes_the_authentication_with_it() -> None:
    """The next request closes the client's connection, so that it authenticates again."""

    async def answer_and_close(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await answer(wire, header, broker.metadata())
        raise EOFError

    async with sasl_gateway(Limits()) as (gateway, broker), open_wire(gateway.address) as client:
        await authenticate(client)
        assert (await client.ask(MetadataRequest(topics=()), 1)).brokers
        connections = broker.connections
        broker.handlers[ApiKey.METADATA] = answer_and_close
        assert (await client.ask(MetadataRequest(topics=()), 1)).brokers
        await broker.down_to(connections - 1)
        del broker.handlers[ApiKey.METADATA]
        await client.send(request_frame(ApiKey.METADATA, 1, 7, b"\0\0\0\0"))
        assert await client.at_end()


async def test_connections_count_towards_the_user_that_the_cluster_has_accepted() -> None:
    """One more of the same user is closed. Other users of the same address are not."""
    limits = Limits(max_connections_per_principal=1, max_connections_per_address=1)
    async with sasl_gateway(limits) as (gateway, _), open_wire(gateway.address) as first:
        await authenticate(first, b"alice")
        with capture_logs() as lines:
            async with open_wire(gateway.address) as second:
                with pytest.raises(EOFError):
                    await authenticate(second, b"alice")
        (line,) = [line for line in lines if line["event"] == "connection_refused"]
        assert line["reason"] == "1 clients of the user alice are connected"
        async with open_wire(gateway.address) as third:
            await authenticate(third, b"bob")
            assert (await third.ask(MetadataRequest(topics=()), 1)).brokers


async def test_unfinished_exchanges_of_one_address_are_limited() -> None:
    """Each holds a connection to the broker."""
    limits = Limits(max_handshakes_per_address=1)
    async with sasl_gateway(limits) as (gateway, _), open_wire(gateway.address) as first:
        await first.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        async with open_wire(gateway.address) as second:
            assert await second.at_end()
        await first.ask(SaslAuthenticateRequest(auth_bytes=b"\0me\0pw"), 1)
        async with open_wire(gateway.address) as third:
            await authenticate(third)


async def test_a_client_may_introduce_itself_once_it_is_accepted() -> None:
    """Java does so: its first ApiVersions is of version 0. The broker learns the software, too."""
    named = ApiVersionsRequest(client_software_name="java", client_software_version="4.3.1")
    async with sasl_gateway(Limits()) as (gateway, broker), open_wire(gateway.address) as client:
        await client.ask(ApiVersionsRequest(), 0)
        assert ("java", "4.3.1") not in broker.software
        await authenticate(client)
        assert (await client.ask(named, 3)).error_code == 0
        assert broker.software[-1] == ("java", "4.3.1")
        asked = len(broker.software)
        await client.ask(named, 3)
        assert len(broker.software) == asked  # nothing new


async def test_the_broker_is_asked_nothing_else_during_an_exchange() -> None:
    """The broker would close the connection."""
    named = ApiVersionsRequest(client_software_name="java", client_software_version="4.3.1")
    async with sasl_gateway(Limits()) as (gateway, broker), open_wire(gateway.address) as client:
        await client.ask(ApiVersionsRequest(), 0)
        await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert (await client.ask(named, 3)).error_code == 0
        assert ("java", "4.3.1") not in broker.software
        await client.ask(SaslAuthenticateRequest(auth_bytes=b"\0me\0pw"), 1)
        assert (await client.ask(MetadataRequest(topics=()), 1)).brokers
