"""ApiVersions: a client learns what it may use, and says what software it is."""

from dataclasses import dataclass
from functools import lru_cache

from gateway.cluster.broker_connection import SOFTWARE_NAME, SOFTWARE_VERSION
from gateway.data_path import offer
from gateway.data_path.brokers import ClientSoftware
from gateway.data_path.client_frames import (
    ASIDE_FROM_BYTES,
    REMEMBERED_BYTES_MAX,
    ClientFrames,
    framed_answer,
    framed_body,
)
from gateway.data_path.connection_context import ConnectionContext
from gateway.data_path.connection_limiter import ConnectionSlot
from gateway.data_path.upstream import Upstream
from kafka_codecs import decode
from kafka_codecs.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.header import RequestHeader, decode_request_header

REQUESTS_MAX = 256
"""Short requests that are remembered decoded: clients with the same library send the same bytes."""


@dataclass(frozen=True, slots=True)
class VersionsRefusal:
    """The answer to a client that gets no versions, and its version."""

    answer: ApiVersionsResponse
    version: int


def read_introduction(
    header: RequestHeader, body: bytes, context: ConnectionContext, upstream: Upstream
) -> ApiVersionsRequest | VersionsRefusal:
    """The client's request, or why it gets no versions. Raises WireError."""
    version = header.api_version
    if version not in APIS[ApiKey.API_VERSIONS].versions:
        return VersionsRefusal(offer.too_new_answer(), 0)
    is_short = len(body) <= REMEMBERED_BYTES_MAX
    request = (_read_remembered if is_short else _read)(body, version)
    if request is None:
        return VersionsRefusal(offer.refused_answer(), version)
    if not offer.is_meant_for(request, context.cluster_id(), upstream.stands_for):
        return VersionsRefusal(offer.meant_for_another_answer(), version)
    return request


def _read(body: bytes, version: int) -> ApiVersionsRequest | None:
    """The request; None if it is not well-formed. Raises WireError."""
    request = decode(ApiVersionsRequest, body, version, trailing_ok=True)
    return request if offer.is_well_formed(request, version) else None


_read_remembered = lru_cache(REQUESTS_MAX)(_read)


def software_of(header: RequestHeader, request: ApiVersionsRequest) -> ClientSoftware:
    """What the client says it is. One that does not say it goes under our name."""
    return ClientSoftware(
        client_id=header.client_id,
        name=request.client_software_name or SOFTWARE_NAME,
        version=request.client_software_version or SOFTWARE_VERSION,
    )


def versions_answer(upstream: Upstream, context: ConnectionContext, header: RequestHeader) -> bytes:
    """What a client of this broker may use, as a frame."""
    client_side = tuple(context.client_side_apis.items())
    body = offer.encoded_answer(upstream.offer, client_side, header.api_version)
    return framed_body(header, body)


def introduce_at_once(
    frames: ClientFrames, context: ConnectionContext, slot: ConnectionSlot, size: int, api_key: int
) -> bytes | None:
    """Take what a broker offers from memory for the first request of a client. Returns the answer
    if the request is an ApiVersions that has been taken out; None if it is still to be served."""
    upstream, source = frames.upstream, frames.source
    if (known := upstream.find_offer()) is None:
        return None
    if api_key != ApiKey.API_VERSIONS:
        upstream.take_offer(ClientSoftware(), known)
        slot.introduce(None, upstream.number)
        return None
    if not source.is_alone(size) or size >= ASIDE_FROM_BYTES:
        return None
    frame = source.take_out(size)
    header, body_at = decode_request_header(frame)
    request = read_introduction(header, frame[body_at:], context, upstream)
    if isinstance(request, VersionsRefusal):
        return framed_answer(header, request.version, request.answer)
    software = software_of(header, request)
    upstream.take_offer(software, known)
    slot.introduce(software.client_id, upstream.number)
    return versions_answer(upstream, context, header)
