"""The guarantees that declarations give to users of messages."""

import pytest

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.primitives import Int32
from tests.support.codecs import every_message, message_id


@structure
class Point(Struct):
    """An example."""

    x: Int32
    y: Int32 = wire(since=1, default=-1)


@pytest.mark.parametrize("message_type", sorted({m for m, _ in every_message()}, key=message_id))
def test_messages_are_slotted_and_keyword_only(message_type: type[Struct]) -> None:
    """No attributes can be added, and fields have no positions."""
    assert "__slots__" in vars(message_type)
    with pytest.raises(TypeError, match="positional"):
        message_type(())  # type: ignore[call-arg]


def test_messages_are_equal_by_value_and_hashable() -> None:
    """Messages can be compared, and used as keys."""
    assert Point(x=1) == Point(x=1, y=-1)
    assert len({Point(x=1), Point(x=1), Point(x=2)}) == 2


def test_a_field_of_all_versions_is_required() -> None:
    """A forgotten field is an error, not a zero on the wire."""
    with pytest.raises(TypeError, match="'x'"):
        Point()  # type: ignore[call-arg]


def test_a_field_that_can_be_absent_needs_a_default() -> None:
    """Decoding a version without the field needs a value."""
    with pytest.raises(TypeError, match=r"Gap\.late can be absent and needs a default"):

        @structure
        class Gap(Struct):
            late: Int32 = wire(since=3)


def test_a_message_knows_its_api_and_versions() -> None:
    """The api key alone determines which versions are flexible."""

    @message(ApiKey.HEARTBEAT, versions=range(5))
    class Beat(Struct):
        count: Int32

    assert Beat.SCHEMA.api_key is ApiKey.HEARTBEAT
    assert [Beat.SCHEMA.is_flexible(version) for version in Beat.SCHEMA.versions] == [
        *(False, False, False, False),
        True,
    ]
