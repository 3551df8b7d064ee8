"""Request and response headers, from a table and compared with kio."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_reader

from kafka_codecs import WireError
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from kafka_codecs.primitives import STRING_SIZE_MAX
from tests.support.codecs import octets

BODY = b"body"


def header(api_key: int, api_version: int, client_id: str | None = "me") -> RequestHeader:
    """A header with a correlation id of 7."""
    return RequestHeader(
        api_key=api_key, api_version=api_version, correlation_id=7, client_id=client_id
    )


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (header(ApiKey.HEARTBEAT, 3), "000c 0003 00000007 0002 'me'"),
        (header(ApiKey.HEARTBEAT, 4), "000c 0004 00000007 0002 'me' 00"),
        (header(ApiKey.HEARTBEAT, 4, None), "000c 0004 00000007 ffff 00"),
        (header(ApiKey.API_VERSIONS, 2, ""), "0012 0002 00000007 0000"),
        (header(ApiKey.API_VERSIONS, 3, ""), "0012 0003 00000007 0000 00"),
        (header(ApiKey.API_VERSIONS, 99, ""), "0012 0063 00000007 0000 00"),
        (header(ApiKey.SASL_HANDSHAKE, 1), "0011 0001 00000007 0002 'me'"),
        (header(ApiKey.FETCH, 12), "0001 000c 00000007 0002 'me' 00"),
        (
            RequestHeader(
                api_key=68,
                api_version=1,
                correlation_id=-1,
                client_id="é",
                unknown_tags=((5, b"x"),),
            ),
            "0044 0001 ffffffff 0002 c3a9 01 05 01 'x'",
        ),
    ],
)
def test_a_request_header_and_its_bytes(value: RequestHeader, wire: str) -> None:
    """The client id is never compact. Tagged fields follow it in flexible versions."""
    assert encode_request_header(value) == octets(wire)
    assert decode_request_header(octets(wire) + BODY) == (value, len(octets(wire)))


@pytest.mark.parametrize(
    "wire", ["000c 0000 00000007 0002 c328", "000c 0004 00000007 0002 c328 00"]
)
def test_a_malformed_client_id_is_replaced(wire: str) -> None:
    """The client id is treated like every other string."""
    assert decode_request_header(octets(wire))[0].client_id == "\ufffd("


def test_an_api_may_have_another_key_on_the_wire() -> None:
    """The given key says which versions are flexible, too."""
    wire = octets("7919 0000 00000007 0002 'me' 00")
    install = ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT
    assert decode_request_header(wire, install) == (header(install, 0), len(wire))
    with pytest.raises(WireError, match="unknown api key 31001"):
        decode_request_header(wire)


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ("", "8 bytes"),
        ("000c 0004 000000", "8 bytes"),
        ("000c 0004 00000007", "2 bytes"),
        ("000c 0004 00000007 0005 'me'", "5 bytes wanted, 2 left"),
        ("000c 0004 00000007 0002 'me'", "1 bytes wanted, 0 left"),
        ("000c 0004 00000007 fffe 00", "length -2"),
        ("000c ffff 00000007 0002 'me'", "version -1"),
        ("03e7 0000 00000007 0002 'me'", "unknown api key 999"),
        ("0004 0000 00000007 0002 'me'", "unknown api key 4"),
        ("ffff 0000 00000007 0002 'me'", "unknown api key -1"),
    ],
)
def test_a_bad_request_header_is_a_wire_error(wire: str, reason: str) -> None:
    """The error has the reason, and the decoder does not guess."""
    with pytest.raises(WireError, match=reason):
        decode_request_header(octets(wire))


@pytest.mark.parametrize(
    "value",
    [
        header(999, 0),
        header(ApiKey.HEARTBEAT, 2**15),
        RequestHeader(
            api_key=12, api_version=3, correlation_id=1, client_id="", unknown_tags=((1, b""),)
        ),
    ],
)
def test_an_invalid_header_cannot_be_encoded(value: RequestHeader) -> None:
    """Encoding raises the same errors as decoding."""
    with pytest.raises(WireError):
        encode_request_header(value)


@pytest.mark.parametrize(
    ("api_key", "version", "wire"),
    [
        (ApiKey.HEARTBEAT, 3, "00000007"),
        (ApiKey.HEARTBEAT, 4, "00000007 00"),
        (ApiKey.OFFSET_DELETE, 0, "00000007"),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, "00000007 00"),
        (ApiKey.API_VERSIONS, 0, "00000007"),
        (ApiKey.API_VERSIONS, 4, "00000007"),  # never flexible (KIP-511)
    ],
)
def test_a_response_header_and_its_bytes(api_key: ApiKey, version: int, wire: str) -> None:
    """Flexible versions end with an empty set of tagged fields, except for ApiVersions."""
    expected = octets(wire)
    assert encode_response_header(api_key, version, 7) == expected
    assert decode_response_header(api_key, version, expected + BODY) == (7, len(expected))


def test_tagged_fields_of_a_response_header_are_skipped() -> None:
    """A newer broker may send some."""
    wire = octets("00000007 01 00 03 'new'")
    assert decode_response_header(ApiKey.HEARTBEAT, 4, wire + BODY) == (7, len(wire))


@pytest.mark.parametrize("wire", ["", "000000", "00000007", "00000007 01 00 05"])
def test_a_bad_response_header_is_a_wire_error(wire: str) -> None:
    """Missing bytes are an error."""
    with pytest.raises(WireError):
        decode_response_header(ApiKey.HEARTBEAT, 4, octets(wire))


@pytest.mark.parametrize("version", [3, 4])
@given(correlation_id=st.integers(-(2**31), 2**31 - 1), client_id=st.none() | st.text(max_size=20))
def test_kio_reads_the_same_header(
    version: int, correlation_id: int, client_id: str | None
) -> None:
    """Heartbeat up to v3 uses version 1 of the header, from v4 on version 2."""
    wire = encode_request_header(
        RequestHeader(
            api_key=ApiKey.HEARTBEAT,
            api_version=version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
    )
    made: Any = KioHeaderV1 if version == 3 else KioHeaderV2
    kio, size = entity_reader(made)(wire, 0)
    assert size == len(wire)
    assert (kio.request_api_key, kio.request_api_version) == (ApiKey.HEARTBEAT, version)
    assert (kio.correlation_id, kio.client_id) == (correlation_id, client_id)


@given(st.binary(max_size=64))
def test_random_bytes_fail_only_with_wire_error(wire: bytes) -> None:
    """WireError is the only exception."""
    with contextlib.suppress(WireError):
        decode_request_header(wire)
    for api_key in (ApiKey.HEARTBEAT, ApiKey.API_VERSIONS):
        with contextlib.suppress(WireError):
            decode_response_header(api_key, 4, wire)


@pytest.mark.parametrize("version", [7, 8])
def test_a_client_id_may_become_too_long_to_be_written(version: int) -> None:
    """Kafka answers its requests all the same. What of it fits stands in the gateway's own."""
    text = "c" * (STRING_SIZE_MAX // 3 + 1)
    header = RequestHeader(
        api_key=ApiKey.OFFSET_COMMIT, api_version=version, correlation_id=1, client_id=text
    )
    wire = encode_request_header(header).replace(text.encode(), b"\xff" * len(text))
    decoded, _ = decode_request_header(wire)
    assert decoded.client_id == "\ufffd" * len(text)
    again, _ = decode_request_header(encode_request_header(decoded))
    assert again.client_id == "\ufffd" * (STRING_SIZE_MAX // 3)
