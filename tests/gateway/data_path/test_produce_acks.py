"""The acks of a Produce request are read from as few bytes as possible."""

import struct

import pytest

from gateway.data_path.errors import BadFrame
from gateway.data_path.produce_acks import acks_of
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import RequestHeader, encode_request_header


def _frame(version: int, acks: int, transactional_id: str | None, client_id: str | None) -> bytes:
    tags = ((3, b"abc"), (200, b"x" * 300)) if version >= 9 else ()
    header = RequestHeader(
        api_key=ApiKey.PRODUCE,
        api_version=version,
        correlation_id=1,
        client_id=client_id,
        unknown_tags=tags,
    )
    text = None if transactional_id is None else transactional_id.encode()
    if version < 3:
        body = b""
    elif version < 9:
        body = struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text
    elif text is None:
        body = b"\0"
    else:
        low, high = (len(text) + 1) & 127, (len(text) + 1) >> 7
        body = (bytes([low | 128, high]) if high else bytes([low])) + text
    return b"size" + encode_request_header(header) + body + struct.pack(">h", acks)


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 13])
@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("transactional_id", [None, "", "t", "t" * 1000])
@pytest.mark.parametrize("client_id", [None, "", "client"])
def test_acks_are_found_as_soon_as_possible(
    version: int, acks: int, transactional_id: str | None, client_id: str | None
) -> None:
    """Every shorter prefix requests more bytes."""
    frame = memoryview(_frame(version, acks, transactional_id, client_id))
    assert acks_of(frame, version) == acks
    assert acks_of(memoryview(bytes(frame) + b"more"), version) == acks
    assert all(acks_of(frame[:cut], version) is None for cut in range(12, len(frame)))


@pytest.mark.parametrize(
    ("version", "rest"), [(3, b"\xff\xfe"), (9, b"\xff\xff" + b"\xff" * 6), (8, b"\x80\0")]
)
def test_impossible_lengths_are_refused(version: int, rest: bytes) -> None:
    """More bytes would not help."""
    with pytest.raises(BadFrame):
        acks_of(memoryview(bytes(12) + rest), version)
