"""The primitive wire types, from tables and with hostile bytes."""

import contextlib
import struct
from typing import Any
from uuid import UUID

import pytest
from construct import ConstructError
from hypothesis import given
from hypothesis import strategies as st

from kafka_codecs.primitives import (
    BOOL,
    COMPACT_LENGTH,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING_SIZE_MAX,
    TAGGED_FIELDS,
    UUID16,
    UVARINT,
    Array,
    Bytes,
    NullableStruct,
    String,
    UnwritableText,
    WireType,
    build_all,
    parse_all,
)
from tests.support.codecs import octets

PLAIN_STRING = String(INT16, nullable=False)
NULLABLE_STRING = String(INT16, nullable=True)
COMPACT_STRING = String(COMPACT_LENGTH, nullable=False)
COMPACT_NULLABLE_STRING = String(COMPACT_LENGTH, nullable=True)
PLAIN_BYTES = Bytes(INT32, nullable=False)
NULLABLE_BYTES = Bytes(INT32, nullable=True)
COMPACT_BYTES = Bytes(COMPACT_LENGTH, nullable=False)
COMPACT_NULLABLE_BYTES = Bytes(COMPACT_LENGTH, nullable=True)
PLAIN_ARRAY = Array(INT32, INT16, nullable=False)
NULLABLE_ARRAY = Array(INT32, INT16, nullable=True)
COMPACT_ARRAY = Array(COMPACT_LENGTH, INT16, nullable=False)
COMPACT_NULLABLE_ARRAY = Array(COMPACT_LENGTH, INT16, nullable=True)
ALL = [
    *(INT8, INT16, INT32, INT64, BOOL, UVARINT, COMPACT_LENGTH, UUID16, TAGGED_FIELDS),
    *(PLAIN_STRING, NULLABLE_STRING, COMPACT_STRING, COMPACT_NULLABLE_STRING),
    *(PLAIN_BYTES, NULLABLE_BYTES, COMPACT_BYTES, COMPACT_NULLABLE_BYTES),
    *(PLAIN_ARRAY, NULLABLE_ARRAY, COMPACT_ARRAY, COMPACT_NULLABLE_ARRAY),
]
REFUSALS = (ConstructError, struct.error, UnicodeError)


@pytest.mark.parametrize(
    ("wire_type", "value", "wire"),
    [
        (INT8, 0, "00"),
        (INT8, 127, "7f"),
        (INT8, -128, "80"),
        (INT16, 258, "0102"),
        (INT16, -1, "ffff"),
        (INT32, 16909060, "01020304"),
        (INT32, -(2**31), "80000000"),
        (INT64, 2**63 - 1, "7fffffffffffffff"),
        (INT64, -2, "fffffffffffffffe"),
        (BOOL, False, "00"),
        (BOOL, True, "01"),
        (UVARINT, 0, "00"),
        (UVARINT, 127, "7f"),
        (UVARINT, 128, "8001"),
        (UVARINT, 300, "ac02"),
        (UVARINT, 16383, "ff7f"),
        (UVARINT, 16384, "808001"),
        (UVARINT, 2**32 - 1, "ffffffff0f"),
        (COMPACT_LENGTH, -1, "00"),
        (COMPACT_LENGTH, 0, "01"),
        (COMPACT_LENGTH, 126, "7f"),
        (COMPACT_LENGTH, 127, "8001"),
        (UUID16, UUID(int=0), "00000000000000000000000000000000"),
        (
            UUID16,
            UUID("00112233-4455-6677-8899-aabbccddeeff"),
            "00112233445566778899aabbccddeeff",
        ),
        (PLAIN_STRING, "", "0000"),
        (PLAIN_STRING, "abc", "0003 'abc'"),
        (PLAIN_STRING, "é", "0002 c3a9"),
        (NULLABLE_STRING, None, "ffff"),
        (NULLABLE_STRING, "abc", "0003 'abc'"),
        (COMPACT_STRING, "", "01"),
        (COMPACT_STRING, "abc", "04 'abc'"),
        (COMPACT_NULLABLE_STRING, None, "00"),
        (COMPACT_NULLABLE_STRING, "", "01"),
        (PLAIN_BYTES, b"", "00000000"),
        (PLAIN_BYTES, b"\xff", "00000001 ff"),
        (NULLABLE_BYTES, None, "ffffffff"),
        (COMPACT_BYTES, b"\xff\x00", "03 ff00"),
        (COMPACT_NULLABLE_BYTES, None, "00"),
        (PLAIN_ARRAY, (), "00000000"),
        (PLAIN_ARRAY, (1, -1), "00000002 0001 ffff"),
        (NULLABLE_ARRAY, None, "ffffffff"),
        (COMPACT_ARRAY, (), "01"),
        (COMPACT_ARRAY, (1, 2), "03 0001 0002"),
        (COMPACT_NULLABLE_ARRAY, None, "00"),
        (NullableStruct(INT16), None, "ff"),
        (NullableStruct(INT16), 7, "01 0007"),
        (TAGGED_FIELDS, (), "00"),
        (TAGGED_FIELDS, ((0, b"a"), (300, b"")), "02 00 01 'a' ac02 00"),
    ],
)
def test_a_value_and_its_bytes(wire_type: WireType, value: object, wire: str) -> None:
    """The table holds in both directions."""
    assert build_all(wire_type, value) == octets(wire)
    assert parse_all(wire_type, octets(wire)) == value


@pytest.mark.parametrize(
    ("wire_type", "wire"),
    [
        (UVARINT, "8080808080 01"),  # six bytes
        (UVARINT, "ffffffff10"),  # 33 bits
        (UVARINT, "80"),
        (PLAIN_STRING, "ffff"),  # null
        (NULLABLE_STRING, "fffe"),  # length -2
        (COMPACT_STRING, "00"),  # null
        (PLAIN_STRING, "0002 'a'"),
        (COMPACT_BYTES, "ffffffff0f"),  # 4 GiB announced
        (PLAIN_BYTES, "7fffffff"),
        (PLAIN_BYTES, "ffffffff"),
        (NULLABLE_BYTES, "80000000"),
        (PLAIN_ARRAY, "7fffffff"),
        (PLAIN_ARRAY, "ffffffff"),
        (PLAIN_ARRAY, "00000002 000100"),
        (COMPACT_ARRAY, "ffffffff0f"),
        (NullableStruct(INT16), "00"),
        (NullableStruct(INT16), "02 0007"),
        (TAGGED_FIELDS, "ffffffff0f"),
        (TAGGED_FIELDS, "02 01 00 00 00"),  # descending
        (TAGGED_FIELDS, "02 01 00 01 00"),  # the same twice
        (TAGGED_FIELDS, "01 00 02 00"),  # shorter than announced
        (UUID16, "00"),
        (INT32, "000000"),
        (BOOL, ""),
        (INT8, "0000"),  # a byte is left over
    ],
)
def test_malformed_bytes_are_refused(wire_type: WireType, wire: str) -> None:
    """Their lengths, nulls or order are wrong."""
    with pytest.raises(REFUSALS):
        parse_all(wire_type, octets(wire))


@pytest.mark.parametrize(
    ("wire_type", "value"),
    [
        (INT8, 128),
        (INT16, "x"),
        (UVARINT, -1),
        (UVARINT, 2**32),
        (PLAIN_STRING, None),
        (PLAIN_STRING, "x" * (STRING_SIZE_MAX + 1)),
        (COMPACT_STRING, "x" * (STRING_SIZE_MAX + 1)),
        (PLAIN_STRING, "\ud800"),
        (COMPACT_BYTES, None),
        (COMPACT_ARRAY, None),
        (PLAIN_ARRAY, (1, 40000)),
        (TAGGED_FIELDS, ((2, b""), (1, b""))),
    ],
)
def test_values_that_do_not_fit_are_refused(wire_type: WireType, value: object) -> None:
    """A value is never truncated."""
    with pytest.raises(REFUSALS):
        build_all(wire_type, value)


def test_the_longest_string_passes() -> None:
    """Kafka's limit of 32767 bytes is inclusive, for compact strings too."""
    longest = "x" * STRING_SIZE_MAX
    for wire_type in (PLAIN_STRING, COMPACT_STRING):
        assert parse_all(wire_type, build_all(wire_type, longest)) == longest
    with pytest.raises(ConstructError):
        parse_all(COMPACT_STRING, build_all(COMPACT_BYTES, b"x" * (STRING_SIZE_MAX + 1)))


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("80 01 ff", "\ufffd\x01\ufffd"),
        ("'a' 00 'b'", "a\0b"),
        ("c3 28", "\ufffd("),
        ("c0 80", "\ufffd\ufffd"),  # overlong NUL, as in Java's own format
        ("e0 80 af", "\ufffd\ufffd\ufffd"),
        ("e2 82 'x' e2 82", "\ufffdx\ufffd"),  # truncated
        ("f0 9f 98", "\ufffd"),
        ("f4 90 80 80", "\ufffd\ufffd\ufffd\ufffd"),  # above U+10FFFF
        ("ed a0 80 ed b0 80 'x'", "\ufffd\ufffdx"),  # two surrogates
        ("ed a0 'x'", "\ufffdx"),
        ("c3 a9 ff c3 a9", "é\ufffdé"),
    ],
)
def test_malformed_text_is_replaced_as_kafka_does(text: str, replaced: str) -> None:
    """Kafka refuses no bytes. `test_primitives_with_kafka.py` asks it about more of them."""
    wire = build_all(INT16, len(octets(text))) + octets(text)
    assert parse_all(PLAIN_STRING, wire) == replaced
    assert build_all(PLAIN_STRING, replaced) == build_all(PLAIN_BYTES, replaced.encode())[2:]


@pytest.mark.parametrize("lead", ["", "é"])
def test_text_that_becomes_too_long_keeps_its_bytes(lead: str) -> None:
    """Whatever was read can be written."""
    longest = (STRING_SIZE_MAX - len(lead.encode())) // 3
    text = lead.encode() + b"\xff" * longest
    assert parse_all(PLAIN_STRING, build_all(INT16, len(text)) + text) == lead + "\ufffd" * longest
    wire = build_all(INT16, len(text) + 1) + text + b"\xff"
    unwritable = parse_all(PLAIN_STRING, wire)
    assert unwritable == lead + "\ufffd" * (longest + 1)
    assert isinstance(unwritable, UnwritableText)
    assert build_all(PLAIN_STRING, unwritable) == wire
    with pytest.raises(ConstructError):
        build_all(PLAIN_STRING, f"{unwritable}")


def test_an_array_is_refused_before_its_first_element() -> None:
    """The decoder compares the count with the remaining bytes, using the minimum size of an
    element."""

    class Explosive(WireType):
        min_size = 3

        def read(self, stream: Any) -> None:
            raise AssertionError

        def write(self, value: Any, stream: Any) -> None:
            raise AssertionError

    with pytest.raises(ConstructError, match="2 elements cannot fit in 5 bytes"):
        parse_all(Array(INT32, Explosive(), nullable=False), octets("00000002 0102030405"))


def test_elements_that_take_no_bytes_cannot_be_declared() -> None:
    """Any number of such elements would fit into a frame."""

    class Nothing(WireType):
        min_size = 0

        def read(self, stream: Any) -> None:
            raise AssertionError

        def write(self, value: Any, stream: Any) -> None:
            raise AssertionError

    with pytest.raises(TypeError, match="no count of them can be checked"):
        Array(INT32, Nothing(), nullable=False)


def test_the_types_are_ordinary_constructs() -> None:
    """Other constructs can contain them."""
    assert COMPACT_STRING.parse(b"\x03hi") == "hi"
    assert COMPACT_STRING.build("hi") == b"\x03hi"


@pytest.mark.parametrize("wire_type", ALL, ids=lambda wire_type: type(wire_type).__name__)
@given(wire=st.binary(max_size=64))
def test_random_bytes_are_refused_or_read(wire_type: WireType, wire: bytes) -> None:
    """Every exception of a primitive is one that `decode` converts into WireError."""
    with contextlib.suppress(*REFUSALS):
        parse_all(wire_type, wire)
