"""The requests of a client are served in front of a fake broker, in their order."""

import struct
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gateway.data_path.api_table import LEFT_OUT
from gateway.data_path.config import DataPathConfig
from gateway.data_path.group_apis import GroupApis, GroupRequest
from kafka_codecs import decode, encode
from kafka_codecs.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.end_txn import EndTxnRequest, EndTxnResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.metadata import MetadataRequest
from tests.gateway.data_path.client_connection import ground
from tests.support.fake_broker import answer_bytes
from tests.support.wire import Wire, request_frame


async def test_the_clients_software_is_passed_on() -> None:
    """The broker's metrics name the client, not the gateway (KIP-511)."""
    async with ground() as on:
        request = ApiVersionsRequest(client_software_name="lib", client_software_version="1.2")
        answer = await on.client.ask(request, 3)
        assert answer.error_code == 0
        await on.client.ask(MetadataRequest(topics=()), 9)
        assert on.broker.software[-1] == ("lib", "1.2")


async def test_a_client_that_means_another_cluster_bootstraps_again() -> None:
    """The broker is not asked. The connection stays (KIP-1242)."""
    async with ground() as on:
        cluster_id = (await on.client.ask(MetadataRequest(topics=()), 9)).cluster_id
        named = ApiVersionsRequest(client_software_name="lib", client_software_version="1.2")
        answer = await on.client.ask(replace(named, cluster_id="other", node_id=1), 5)
        assert answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED
        answer = await on.client.ask(replace(named, cluster_id=cluster_id, node_id=1), 5)
        assert answer.error_code == 0


async def test_what_the_broker_answers_to_a_name_is_not_the_clients_fault() -> None:
    """The broker has the name, and its answer is of no use."""
    async with ground() as on:
        await on.client.ask(ApiVersionsRequest(), 0)
        on.broker.handlers[ApiKey.API_VERSIONS] = answer_badly
        named = ApiVersionsRequest(client_software_name="lib", client_software_version="1.2")
        with capture_logs() as lines:
            assert (await on.client.ask(named, 3)).error_code == 0
        assert [line for line in lines if line["log_level"] == "warning"] == []


async def test_a_malformed_answer_closes_the_connection_and_is_the_brokers_fault() -> None:
    async with ground() as on:
        await on.client.ask(ApiVersionsRequest(), 0)
        on.broker.handlers[ApiKey.METADATA] = answer_badly
        with capture_logs() as lines:
            body = encode(MetadataRequest(topics=()), 1)
            await on.client.send(request_frame(ApiKey.METADATA, 1, 7, body))
            assert await on.client.at_end()
        (line,) = [line for line in lines if line["log_level"] == "warning"]
        assert line["event"] == "bad_answer_received"
        assert "malformed answer" in line["reason"]


async def answer_badly(wire: Wire, header: RequestHeader, _: bytes) -> None:
    """Answer with bytes that no schema allows."""
    await answer_bytes(wire, header, b"\xff" * 9)


async def test_unsupported_versions_get_error_35_in_the_oldest_layout() -> None:
    """A client must be able to read the refusal in any version (KIP-511)."""
    async with ground() as on:
        await on.client.send(request_frame(ApiKey.API_VERSIONS, 99, 5, b"\0garbage"))
        frame = await on.client.frame()
        answer = decode(ApiVersionsResponse, frame[4:], 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(api.api_key, api.max_version) for api in answer.api_keys] == [(18, 5)]
        again = await on.client.ask(
            ApiVersionsRequest(client_software_name="lib", client_software_version="1"), 4
        )
        assert again.error_code == 0


@pytest.mark.parametrize("name", ["", "-x", "a b"])
async def test_malformed_client_software_is_refused(name: str) -> None:
    """The answer is INVALID_REQUEST and the connection continues, as in a broker."""
    async with ground() as on:
        before = list(on.broker.software)
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        assert (await on.client.ask(request, 3)).error_code == ErrorCode.INVALID_REQUEST
        assert on.broker.software == before


PREPARE_KEY = ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT
OPERATORS_KEY = 31_000
PREPARE = ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="m", member_epoch=1)


class Prepared(GroupApis):
    """Answers each request with the group epoch 6."""

    def __init__(self) -> None:
        self.requests: list[GroupRequest] = []

    def answer(self, request: GroupRequest) -> Struct:
        self.requests.append(request)
        return ConsumerGroupPrepareAssignmentResponse(group_epoch=6)


async def test_client_side_assignors_have_the_operators_api_keys() -> None:
    """ApiVersions tells them, and only they lead to the apis."""
    groups = Prepared()
    config = DataPathConfig(
        listen_port=0, advertised_host="127.0.0.1", client_side_api_key=OPERATORS_KEY
    )
    async with ground(group_apis=groups, config=config) as on:
        spoken = await on.client.ask(ApiVersionsRequest(), 0)
        offered = {api.api_key: (api.min_version, api.max_version) for api in spoken.api_keys}
        high = {key: versions for key, versions in offered.items() if key >= 1_000}
        assert high == {OPERATORS_KEY: (0, 0), OPERATORS_KEY + 1: (0, 0)}
        frame = request_frame(PREPARE_KEY, 0, 5, encode(PREPARE, 0))
        await on.client.send(frame[:4] + struct.pack(">h", OPERATORS_KEY) + frame[6:])
        answer = await on.client.frame()
        assert decode(ConsumerGroupPrepareAssignmentResponse, answer[5:], 0).group_epoch == 6
        assert [request.message for request in groups.requests] == [PREPARE]
        assert groups.requests[0].header.api_key == PREPARE_KEY
        with capture_logs() as lines:
            await on.client.send(frame)
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["unknown_request_received"]


async def test_the_log_says_why_an_api_is_refused() -> None:
    """Its author finds the reason there: clients get none from a closed connection."""
    key = ApiKey.CREATE_DELEGATION_TOKEN
    async with ground() as on:
        with capture_logs() as lines:
            await on.client.send(struct.pack(">ihhih", 10, key, 3, 1, -1))
            assert await on.client.at_end()
        assert [line["reason"] for line in lines] == [LEFT_OUT[key]]


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (999, 0),
        (32_000, 0),
        (32_001, 0),
        (4, 0),
        (17, 0),
        (78, 1),
        (0, 12),
        (1, 16),
        (3, 14),
        (22, 0),
    ],
)
async def test_requests_that_are_not_offered_are_never_relayed(key: int, version: int) -> None:
    """Unknown keys, versions out of range, and APIs that the upstream lacks close the connection,
    with one line."""
    async with ground() as on:
        with capture_logs() as lines:
            await on.client.send(struct.pack(">ihhih", 10, key, version, 1, -1))
            assert await on.client.at_end()
        assert [line["event"] for line in lines] == ["unknown_request_received"]
        assert (lines[0]["api_key"], lines[0]["api_version"]) == (key, version)
        seen = [(header.api_key, header.api_version) for header in on.broker.seen]
        assert (key, version) not in seen


class Transactions(Prepared):
    """Notes the transactions that end."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[EndTxnRequest] = []

    def record_transaction_end(self, request: EndTxnRequest) -> None:
        self.ended.append(request)


async def test_a_transaction_that_the_broker_has_ended_is_noted() -> None:
    """One that it refuses to end is not. The client gets the broker's answer."""
    groups = Transactions()
    codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]

    async def end(wire: Wire, header: RequestHeader, _: bytes) -> None:
        answer = EndTxnResponse(throttle_time_ms=7, error_code=codes.pop(0))
        await answer_bytes(wire, header, encode(answer, header.api_version))

    async with ground(group_apis=groups, versions={ApiKey.END_TXN: (0, 3)}) as on:
        on.broker.handlers[ApiKey.END_TXN] = end
        request = EndTxnRequest(
            transactional_id="t", producer_id=1, producer_epoch=2, committed=True
        )
        answers = [await on.client.ask(request, 3) for _ in range(2)]
        assert [(answer.error_code, answer.throttle_time_ms) for answer in answers] == [
            (ErrorCode.NOT_COORDINATOR, 7),
            (ErrorCode.NONE, 7),
        ]
        assert groups.ended == [request]
