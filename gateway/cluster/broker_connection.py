"""One connection to a broker, with requests, answers and limits.

Handles frames, correlation ids and version negotiation. The data path also opens its upstream
connections here and then takes over the socket (`detach`).
"""

import contextlib
import itertools
import math
import os
import re
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version as package_version
from types import TracebackType
from typing import Any, Self

import trio

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.errors import UpstreamClosed, UpstreamError, UpstreamRefused
from gateway.cluster.sasl import Credentials
from gateway.transport.sockets import Transport, close, limit_silence, receive_some, send_all
from gateway.transport.tls import TlsSocket, begin_tls
from kafka_codecs import WireError, decode, encode
from kafka_codecs.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode, name_of
from kafka_codecs.header import RequestHeader, decode_response_header, encode_request_header
from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_codecs.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Address = tuple[str, int]
"""Host and port."""

Versions = Mapping[int, tuple[int, int]]
"""Lowest and highest version per api key."""

CONNECT_TIMEOUT_S = 10
REQUEST_TIMEOUT_S = 30
SILENT_FOR_S, PROBE_AFTER_S = 15, 5
"""How long a broker's machine may take nothing more, and after how long without a packet it is
asked whether it is there. Otherwise the clients of a gateway that is cut off from the cluster wait
until their own requests time out, by default for 30 s. A broker that throttles a client by its
quota reads nothing for up to 10 s by default."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
DECODED_AT_ONCE_BYTES_MAX = 64 * 1024
"""A larger answer, such as all topics of a large cluster, is decoded in a thread, because it may
take seconds."""

SOFTWARE_NAME = "groupferry"
SOFTWARE_VERSION = re.sub(r"[^a-zA-Z0-9.-]", "-", package_version("groupferry"))

_SIZE = struct.Struct(">i")
_ERROR_CODE = struct.Struct(">h")
_UNSUPPORTED_VERSION = 35
_API_VERSIONS_TRIED = (4, 3, 0)
"""Tried in this order until the broker supports one. v4 returns features that begin at level 0, as
most features of Kafka 4 do; v3 names the client software."""
_TLS_ALERT = b"\x15\x03"

AUTHENTICATE_AGAIN_AFTER = 0.8
"""The used share of a session's lifetime: the broker closes a connection that is used after it."""
_SASL_APIS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

TLS_WANTED = "it wants TLS: set upstream_security_protocol to ssl or sasl_ssl"


class BrokerConnection:
    """A connection that several tasks may use. It pipelines requests; a broker answers in order.

    After any UpstreamError the connection is closed.
    """

    def __init__(
        self,
        sock: Transport,
        address: str,
        client_id: str | None,
        credentials: Credentials | None = None,
    ) -> None:
        self._sock = sock
        self._credentials = credentials
        self._authenticate_at_s = math.inf
        self._address = address
        self._client_id = client_id
        self._sending = trio.Lock()
        self._receiving = trio.Lock()
        self._correlation_ids = itertools.count()
        self.closed = False
        self.api_versions = ApiVersionsResponse()
        """The broker's ApiVersions answer."""
        self.versions: Versions = {}
        """The versions in that answer, by API key."""

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        access: Access = PLAIN_ACCESS,
        client_id: str | None = SOFTWARE_NAME,
        software_name: str = SOFTWARE_NAME,
        software_version: str = SOFTWARE_VERSION,
    ) -> Self:
        """Connect, negotiate API versions, and authenticate if `access` has credentials.

        Raises UpstreamRefused if the broker requires other means of access, or does not prove who
        it is, and UpstreamError for everything else.
        """
        address = f"{host}:{port}"
        try:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                sock = await _open_transport(host, port, access)
        except ssl.SSLError as error:
            raise UpstreamRefused(f"no TLS with {address}: {_tls_reason(error)}") from None
        except (OSError, trio.TooSlowError) as error:
            raise UpstreamError(f"cannot connect to {address}: {_reason(error)}") from None
        connection = cls(sock, address, client_id, access.credentials)
        try:
            await connection._negotiate(software_name, software_version)
            if access.credentials:
                await connection._authenticate(access.credentials)
        except BaseException:
            connection.close()
            raise
        return connection

    async def __aenter__(self) -> Self:
        """Close at the end of the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close. Requests without an answer raise UpstreamError."""
        self.closed = True
        close(self._sock)

    def detach(self) -> Transport:
        """Hand over the connection. No answer has been read ahead."""
        return self._sock

    @property
    def local_host(self) -> str:
        """Our own address, which the broker sees unless something in between translates it."""
        return str(self._sock.getsockname()[0])

    def highest_version(self, key: ApiKey) -> int:
        """The highest version of an api that both sides know. Raises UpstreamError if none."""
        known = APIS[key].versions
        low, high = self.versions.get(key, (0, -1))
        version = min(high, known[-1])
        if version < max(low, known[0]):
            raise UpstreamError(
                f"{self._address} has no version of {key.name} that groupferry supports"
            )
        return version

    async def ask(self, message: Struct, version: int | None = None) -> Any:
        """The response to a request, in the highest common version unless told otherwise.

        Returns the response class of the request's api. Raises UpstreamError.
        """
        key = message.SCHEMA.api_key
        assert key is not None
        if version is None:
            version = self.highest_version(key)
        body = await self._exchange(key, version, encode(message, version))
        # librdkafka's mock cluster ends its Metadata answers with one byte too many.
        trailing_ok = key is ApiKey.METADATA
        read = partial(decode, APIS[key].response, body, version, trailing_ok=trailing_ok)
        with self._closing_on_wire_error():
            if len(body) > DECODED_AT_ONCE_BYTES_MAX:
                return await trio.to_thread.run_sync(read)
            return read()

    async def _negotiate(self, software_name: str, software_version: str) -> None:
        request = ApiVersionsRequest(
            client_software_name=software_name, client_software_version=software_version
        )
        try:
            for version in _API_VERSIONS_TRIED:
                body = await self._exchange(ApiKey.API_VERSIONS, version, encode(request, version))
                # The rest of a refusal should be a v0 answer, but not every broker keeps to it.
                if body[: _ERROR_CODE.size] != _ERROR_CODE.pack(_UNSUPPORTED_VERSION):
                    break
        except UpstreamClosed:
            if isinstance(self._sock, TlsSocket):
                raise
            raise UpstreamRefused(
                f"{self._address} closed the connection at the first request: if it is not about to"
                f" end, {TLS_WANTED}"
            ) from None
        with self._closing_on_wire_error():
            self.api_versions = decode(ApiVersionsResponse, body, version)
        if self.api_versions.error_code:
            raise UpstreamError(
                f"{self._address} answered ApiVersions with {name_of(self.api_versions.error_code)}"
            )
        self.versions = {
            api.api_key: (api.min_version, api.max_version) for api in self.api_versions.api_keys
        }

    async def _authenticate(self, credentials: Credentials) -> None:
        """Authenticate, for the first time or again (KIP-368). No other request may be under way.

        Raises UpstreamError.
        """
        started_s = trio.current_time()
        mechanism = credentials.mechanism
        handshake: SaslHandshakeResponse = await self.ask(
            SaslHandshakeRequest(mechanism=mechanism), 1
        )
        if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise UpstreamRefused(f"{self._address} does not offer SASL at this port")
        if handshake.error_code:
            has = ", ".join(handshake.mechanisms)
            raise UpstreamRefused(f"{self._address} has no mechanism {mechanism}, but {has}")
        if credentials.tokens is None:
            exchange = credentials.exchange()
        else:
            exchange = await trio.to_thread.run_sync(credentials.exchange, abandon_on_cancel=True)
        try:
            token = next(exchange)
            while True:
                answer: SaslAuthenticateResponse = await self.ask(
                    SaslAuthenticateRequest(auth_bytes=token)
                )
                if answer.error_code:
                    raise UpstreamRefused(
                        f"{self._address} refuses user {credentials.username} with {mechanism}:"
                        f" {answer.error_message or name_of(answer.error_code)}"
                    )
                token = exchange.send(answer.auth_bytes)
        except StopIteration:
            pass
        if answer.session_lifetime_ms > 0:
            lifetime_s = answer.session_lifetime_ms / 1000
            self._authenticate_at_s = started_s + AUTHENTICATE_AGAIN_AFTER * lifetime_s

    async def _exchange(self, key: ApiKey, version: int, body: bytes) -> bytes:
        correlation_id = next(self._correlation_ids) & 0x7FFFFFFF
        header = RequestHeader(
            api_key=key,
            api_version=version,
            correlation_id=correlation_id,
            client_id=self._client_id,
        )
        request = encode_request_header(header) + body
        try:
            with trio.fail_after(REQUEST_TIMEOUT_S):
                # The task that authenticates has the lock already.
                async with contextlib.nullcontext() if key in _SASL_APIS else self._sending:
                    if key not in _SASL_APIS and trio.current_time() >= self._authenticate_at_s:
                        assert self._credentials
                        await self._authenticate(self._credentials)
                    await send_all(self._sock, _SIZE.pack(len(request)) + request)
                # Trio's locks are fair: answers are received in the order of the requests.
                async with self._receiving:
                    answer = await self._receive_frame()
        except BaseException as error:
            self.close()  # the next request would otherwise take this answer for its own
            if isinstance(error, trio.TooSlowError):
                raise UpstreamError(
                    f"{self._address} did not answer {key.name} in {REQUEST_TIMEOUT_S} s"
                ) from None
            # A broker that dies ends TLS without saying so.
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                raise UpstreamRefused(
                    f"{self._address} ended TLS at {key.name}: {_tls_reason(error)}"
                ) from None
            if isinstance(error, (OSError, trio.ClosedResourceError)):
                raise UpstreamClosed(
                    f"{self._address} closed the connection at {key.name}"
                ) from None
            raise
        with self._closing_on_wire_error():
            answered_id, offset = decode_response_header(key, version, answer)
            if answered_id != correlation_id:
                raise WireError(f"answer {answered_id} to request {correlation_id}")
        return answer[offset:]

    async def _receive_frame(self) -> bytes:
        start = await self._receive_exactly(_SIZE.size)
        if start.startswith(_TLS_ALERT):
            raise UpstreamRefused(f"{self._address}: {TLS_WANTED}")
        (size,) = _SIZE.unpack(start)
        if not 0 < size <= ANSWER_BYTES_MAX:
            reason = "is not a Kafka broker: it speaks another protocol"
            raise UpstreamError(f"{self._address} {reason}")
        return await self._receive_exactly(size)

    async def _receive_exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            chunk = await receive_some(self._sock, count - len(received))
            if not chunk:
                raise ConnectionResetError
            received += chunk
        return bytes(received)

    @contextlib.contextmanager
    def _closing_on_wire_error(self) -> Iterator[None]:
        try:
            yield
        except WireError as error:
            self.close()
            raise UpstreamError(f"{self._address} sent a malformed answer: {error}") from None


async def _open_transport(host: str, port: int, access: Access) -> Transport:
    """Raises OSError, with TLS also as ssl.SSLError."""
    try:
        stream = await trio.open_tcp_stream(host, port)
    except UnicodeError:  # a broker may tell of any name
        raise OSError("no host can have this name") from None
    sock = socket.socket(fileno=stream.socket.detach())
    limit_silence(sock, SILENT_FOR_S, PROBE_AFTER_S)
    if access.tls is None:
        return sock
    return await begin_tls(sock, access.tls.current, server_name=host)


def _tls_reason(error: ssl.SSLError) -> str:
    """Why, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not accepted: {error.verify_message}; upstream_tls_ca names the"
            " authorities to trust"
        )
    if isinstance(error, ssl.SSLEOFError):
        return "it closed the connection; most likely it speaks plain text"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if "certificate required" in reason or "bad certificate" in reason:
        return f"{reason}; it wants a certificate that it knows, see upstream_tls_cert"
    return reason


def _reason(error: OSError | trio.TooSlowError) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no answer in {CONNECT_TIMEOUT_S} s"
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    shown = cause if isinstance(cause, OSError) else error
    if isinstance(shown, socket.gaierror):
        return shown.strerror or str(shown)
    return os.strerror(shown.errno) if shown.errno else str(shown)
