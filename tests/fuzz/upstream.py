"""The broker behind an attacked gateway: it authenticates everyone and survives garbage."""

from dataclasses import dataclass, field
from uuid import UUID

import trio

from gateway.data_path.api_table import API_TABLE
from kafka_codecs import WireError, decode, encode
from kafka_codecs.api_versions import ApiVersion, ApiVersionsResponse
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader, decode_request_header
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_codecs.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest
from tests.fuzz.neighbours import GROUP
from tests.support.fake_broker import answer, answer_bytes, answer_size
from tests.support.guarded_broker import GuardedBroker
from tests.support.wire import SIZE, Wire

KEPT_MAX = 1_000
"""Groups and requests that the broker remembers."""
RECEIVED_BYTES = 65536
BATCH = 16
"""Requests that are served before others get a turn."""
_READ_BY_THE_GATEWAY = (ApiKey.PRODUCE, ApiKey.DESCRIBE_CLUSTER, ApiKey.ALTER_CONFIGS)


class _BufferedWire(Wire):
    """Receives many requests at a time, and sends their answers together."""

    def __init__(self, stream: trio.SocketStream) -> None:
        Wire.__init__(self, stream)
        self._received, self._answers = bytearray(), bytearray()
        self._count = 0

    async def send(self, data: bytes) -> None:
        self._answers += data

    async def frame(self) -> bytes:
        received = self._received
        while len(received) < SIZE.size or len(received) < _end(received):
            if self._answers:
                await self.stream.send_all(self._answers)
                self._answers = bytearray()
            chunk = await self.stream.receive_some(RECEIVED_BYTES)
            if not chunk:
                raise EOFError
            received += chunk
        end = _end(received)
        self._count += 1
        if self._count % BATCH == 0:  # which must not hold up the neighbours
            await trio.lowlevel.checkpoint()
        frame = bytes(received[SIZE.size : end])
        del received[:end]
        return frame


def _end(received: bytearray) -> int:
    size: int = SIZE.unpack_from(received)[0]
    return SIZE.size + size


@dataclass(slots=True, kw_only=True)
class AttackedBroker(GuardedBroker):
    """Answers what the gateway asks, and relayed requests with their size."""

    bodies: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        GuardedBroker.__post_init__(self)
        self.topic_id = UUID(int=1)
        known = self.versions
        self.versions = {
            key: (0, api.max_version)
            for key, api in API_TABLE.items()
            if key in known or not api.without_upstream
        } | {ApiKey.OFFSET_FETCH: known[ApiKey.OFFSET_FETCH]}
        self.handlers = (
            dict.fromkeys(self.versions.keys() - {ApiKey.API_VERSIONS}, answer_size)
            | dict.fromkeys(_READ_BY_THE_GATEWAY, _answer_nothing)
            | self.handlers
            | {ApiKey.SASL_HANDSHAKE: _agree, ApiKey.SASL_AUTHENTICATE: _accept}
        )

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection. As a broker does, close it at a request that makes no sense."""
        wire = _BufferedWire(stream)
        async with stream:
            try:
                while True:
                    frame = await wire.frame()
                    header, offset = decode_request_header(frame)
                    await self._serve_request(wire, header, frame[offset:])
            except (EOFError, WireError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    async def _serve_request(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        if header.api_key == ApiKey.API_VERSIONS:
            await answer_bytes(wire, header, self._versions_body(header.api_version))
            return
        handler = self.handlers.get(ApiKey(header.api_key))
        if handler is None:
            raise EOFError
        if handler is answer_size:  # most requests, which leave nothing behind
            await handler(wire, header, body)
            return
        try:
            await handler(wire, header, body)
        except (ValueError, LookupError, AssertionError) as error:
            raise EOFError from error
        finally:
            self._forget()

    def _versions_body(self, version: int) -> bytes:
        """Encoded once: every attack begins with this question."""
        if version not in self.bodies:
            offered = tuple(
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.versions.items()
            )
            self.bodies[version] = encode(ApiVersionsResponse(api_keys=offered), version)
        return self.bodies[version]

    async def _take(self, request: OffsetCommitRequest | TxnOffsetCommitRequest) -> int:
        """Store the offsets of the neighbours only: all groups would share them."""
        if request.group_id == GROUP:
            return await GuardedBroker._take(self, request)
        return self.coordinator.check_commit(request)

    def _forget(self) -> None:
        for requests in (self.commits, self.deleted, self.questions, self.software):
            if len(requests) > KEPT_MAX:
                del requests[:]
        groups = self.coordinator.groups
        if len(groups) > KEPT_MAX:
            for group_id in [token for token, group in groups.items() if not group.member_id]:
                del groups[group_id]


async def _answer_nothing(wire: Wire, header: RequestHeader, body: bytes) -> None:
    await answer(wire, header, APIS[ApiKey(header.api_key)].response())


async def _agree(wire: Wire, header: RequestHeader, body: bytes) -> None:
    request = decode(SaslHandshakeRequest, body, header.api_version)
    known = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
    code = 0 if request.mechanism in known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    await answer(wire, header, SaslHandshakeResponse(error_code=code, mechanisms=known))


async def _accept(wire: Wire, header: RequestHeader, body: bytes) -> None:
    """Every client that sends a user and a password."""
    request = decode(SaslAuthenticateRequest, body, header.api_version)
    is_plain = request.auth_bytes.count(b"\0") == 2
    code = 0 if is_plain else ErrorCode.SASL_AUTHENTICATION_FAILED
    await answer(wire, header, SaslAuthenticateResponse(error_code=code))
