"""Rules that hold for every message in every layout."""

import contextlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_codecs import WireError, decode, encode
from kafka_codecs.declaration import Struct
from tests.support.codecs import every_layout, message_id, sample, values
from tests.support.hypothesis_profile import examples, thinned_out

EVERY_LAYOUT = every_layout()
LAYOUTS_IN_TURN_MAX = 3
POSITIONS_MAX = 50
"""How many bytes of a frame are tried under the profile `quick`."""


def positions(message_type: type[Struct], version: int, wire: bytes) -> Sequence[int]:
    """The bytes of a frame to try. Layouts of a message have most fields in common, so up to three
    of them try their bytes in turn."""
    layouts = [version for other, version in EVERY_LAYOUT.args[1] if other is message_type]
    turns = min(len(layouts), LAYOUTS_IN_TURN_MAX)
    turn = layouts.index(version) % turns
    return thinned_out(range(turn, len(wire), turns), POSITIONS_MAX)


@EVERY_LAYOUT
@settings(max_examples=examples(5))
@given(data=st.data())
def test_a_decoded_message_equals_the_encoded_one(
    message_type: type[Struct], version: int, data: st.DataObject
) -> None:
    """A value, including unknown tagged fields, survives the wire, and so do its bytes."""
    value = data.draw(values(message_type, version))
    wire = encode(value, version)
    assert decode(message_type, wire, version) == value
    assert encode(decode(message_type, wire, version), version) == wire


@EVERY_LAYOUT
def test_malformed_text_is_replaced_in_every_string(
    message_type: type[Struct], version: int
) -> None:
    """Kafka replaces it, too. The message then has other bytes and the same meaning."""
    value = sample(message_type, version)
    wire = encode(value, version).replace("naïve".encode(), b"na\x80\xffve")
    replaced = decode(message_type, wire, version)
    assert repr(replaced) == repr(value).replace("naïve", "na\ufffd\ufffdve")
    assert decode(message_type, encode(replaced, version), version) == replaced


@EVERY_LAYOUT
def test_a_frame_cut_anywhere_is_an_error(message_type: type[Struct], version: int) -> None:
    """Decoding a prefix raises WireError."""
    wire = encode(sample(message_type, version), version)
    for size in positions(message_type, version, wire):
        with pytest.raises(WireError):
            decode(message_type, wire[:size], version)


@EVERY_LAYOUT
def test_bytes_left_over_are_an_error_unless_allowed(
    message_type: type[Struct], version: int
) -> None:
    """Trailing bytes are accepted only from peers that are known to send them."""
    value = sample(message_type, version)
    wire = encode(value, version) + b"\x00"
    with pytest.raises(WireError, match="1 bytes left over"):
        decode(message_type, wire, version)
    assert decode(message_type, wire, version, trailing_ok=True) == value


@EVERY_LAYOUT
def test_one_wrong_byte_is_an_error_or_another_message(
    message_type: type[Struct], version: int
) -> None:
    """Each byte of a frame is set to harmful values: lengths of -1, 127 and the largest."""
    wire = encode(sample(message_type, version), version)
    for position in positions(message_type, version, wire):
        for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            with contextlib.suppress(WireError):
                decode(
                    message_type, wire[:position] + bytes([byte]) + wire[position + 1 :], version
                )


@EVERY_LAYOUT
@settings(max_examples=examples(12))
@given(wire=st.binary(max_size=256))
def test_random_bytes_fail_only_with_wire_error(
    message_type: type[Struct], version: int, wire: bytes
) -> None:
    """WireError is the only exception that leaves the package."""
    with contextlib.suppress(WireError):
        decode(message_type, wire, version)


@pytest.mark.parametrize("message_type", dict(EVERY_LAYOUT.args[1]), ids=message_id)
def test_versions_outside_the_range_are_refused(message_type: type[Struct]) -> None:
    """An unknown version is an error in both directions."""
    value = sample(message_type, message_type.SCHEMA.versions[-1])
    for wrong in (message_type.SCHEMA.versions[0] - 1, message_type.SCHEMA.versions[-1] + 1):
        with pytest.raises(WireError, match=f"has no version {wrong}"):
            decode(message_type, b"", wrong)
        with pytest.raises(WireError, match=f"has no version {wrong}"):
            encode(value, wrong)
