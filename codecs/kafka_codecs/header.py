"""Request and response headers, for every api key of Kafka 4.4.

The headers of flexible versions end with tagged fields. The response header of ApiVersions never
does, because every client must be able to read it (KIP-511). A frame here excludes its four-byte
size.
"""

import struct
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.apis import first_flexible_version
from kafka_codecs.assembly import MALFORMED
from kafka_codecs.errors import WireError
from kafka_codecs.primitives import AS_JAVA_AT_ANY_LENGTH, INT16, TAGGED_FIELDS, StringOfAnyLength

_REQUEST_START = struct.Struct(">hhi")
_CLIENT_ID_SIZE = struct.Struct(">h")
_CLIENT_ID_AT = _REQUEST_START.size + _CLIENT_ID_SIZE.size
_CORRELATION_ID = struct.Struct(">i")
_NO_TAGS = {False: b"", True: b"\0"}
# The client id is never compact: any broker must be able to read any ApiVersions request header.
_CLIENT_ID = StringOfAnyLength(INT16, nullable=True)


@dataclass(slots=True, kw_only=True)  # frozen, it would take three times as long to make
class RequestHeader:
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    unknown_tags: tuple[tuple[int, bytes], ...] = ()


def decode_request_header(frame: bytes, api_key: ApiKey | None = None) -> tuple[RequestHeader, int]:
    """Decode the header of a request; the second value is the position of the body.

    `api_key` overrides the key in the frame, if clients use another one for this api. Kafka need
    not have the version, because ApiVersions is answered even then. Raises `WireError` for an
    unknown api key, a negative version, and for malformed or missing bytes.
    """
    try:
        frame_key, api_version, correlation_id = _REQUEST_START.unpack_from(frame)
        key = frame_key if api_key is None else api_key
        if api_version < 0:
            raise WireError(f"request header: version {api_version}")
        flexible = _is_flexible(key, api_version)
        (size,) = _CLIENT_ID_SIZE.unpack_from(frame, _REQUEST_START.size)
        end = _CLIENT_ID_AT + size
        client_id: str | None
        tags: tuple[tuple[int, bytes], ...] = ()
        if size >= 0 and frame[end : end + 1] == b"\0" and flexible:  # nearly always
            client_id = frame[_CLIENT_ID_AT:end].decode("utf-8", AS_JAVA_AT_ANY_LENGTH)
            end += 1
        else:
            stream = BytesIO(frame)
            stream.seek(_REQUEST_START.size)
            client_id = _CLIENT_ID.read(stream)
            if flexible:
                tags = TAGGED_FIELDS.read(stream)
            end = stream.tell()
    except MALFORMED as error:
        raise _wire_error(error) from None
    header = RequestHeader(
        api_key=key,
        api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
        unknown_tags=tags,
    )
    return header, end


def encode_request_header(header: RequestHeader) -> bytes:
    """Encode the header of a request. Raises `WireError` for values that do not fit."""
    stream = BytesIO()
    try:
        stream.write(
            _REQUEST_START.pack(header.api_key, header.api_version, header.correlation_id),
        )
        _CLIENT_ID.write(header.client_id, stream)
        if _is_flexible(header.api_key, header.api_version):
            TAGGED_FIELDS.write(header.unknown_tags, stream)
        elif header.unknown_tags:
            raise WireError("request header: this version has no tagged fields")
    except MALFORMED as error:
        raise _wire_error(error) from None
    return stream.getvalue()


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Encode the header of a response. Raises `WireError` for values that do not fit."""
    try:
        return _CORRELATION_ID.pack(correlation_id) + _NO_TAGS[_has_tags(api_key, api_version)]
    except MALFORMED as error:
        raise _wire_error(error) from None


def decode_response_header(api_key: int, api_version: int, data: bytes) -> tuple[int, int]:
    """Decode the header of a response into its correlation id and the position of the body.

    Skips tagged fields: Kafka defines none there. Raises `WireError` for malformed bytes.
    """
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(data)
        if not _has_tags(api_key, api_version):
            return correlation_id, _CORRELATION_ID.size
        if data[_CORRELATION_ID.size : _CORRELATION_ID.size + 1] == b"\0":  # nearly always
            return correlation_id, _CORRELATION_ID.size + 1
        stream = BytesIO(data)
        stream.seek(_CORRELATION_ID.size)
        TAGGED_FIELDS.read(stream)
    except MALFORMED as error:
        raise _wire_error(error) from None
    return correlation_id, stream.tell()


@lru_cache(maxsize=1024)  # clients choose the versions
def _is_flexible(api_key: int, api_version: int) -> bool:
    first = first_flexible_version(api_key)
    return first is not None and api_version >= first


@lru_cache(maxsize=1024)
def _has_tags(api_key: int, api_version: int) -> bool:
    return api_key != ApiKey.API_VERSIONS and _is_flexible(api_key, api_version)


def _wire_error(error: Exception) -> WireError:
    return WireError(f"header: {error}")
