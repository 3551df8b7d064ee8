"""The assembly applies `since`, `until`, `tag` and `ignorable`."""

import pytest

from kafka_codecs import WireError, decode, encode
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.assembly import message_codec
from kafka_codecs.declaration import Struct, message, structure, wire
from kafka_codecs.primitives import Int8, Int16
from tests.support.codecs import check_both_ways, octets


@structure
class Leaf(Struct):
    """A nested structure with a versioned field."""

    size: Int8
    colour: str | None = wire(since=5, default=None)


@message(ApiKey.HEARTBEAT, versions=range(6))
class Tree(Struct):
    """An example of every rule. The api is flexible from v4 on."""

    name: str | None = wire(nullable_since=2)
    seed: Int8 = wire(until=2, default=9)
    hint: Int8 = wire(until=1, default=-1, ignorable=True)
    leaves: tuple[Leaf, ...] = ()
    crown: Leaf | None = wire(since=3, default=None)
    age: Int16 = wire(since=4, tag=1, default=-1)
    root: Leaf = wire(since=4, tag=3, default=Leaf(size=0))


@pytest.mark.parametrize(
    ("version", "tree", "wire_bytes"),
    [
        (0, Tree(name="a", hint=1), "0001 'a' 09 01 00000000"),
        (1, Tree(name="a", leaves=(Leaf(size=1),)), "0001 'a' 09 ff 00000001 01"),
        (2, Tree(name=None), "ffff 09 00000000"),
        (3, Tree(name=None, crown=Leaf(size=2)), "ffff 00000000 01 02"),
        (4, Tree(name=None), "00 01 ff 00"),
        (
            4,
            Tree(name="a", leaves=(Leaf(size=1),), crown=Leaf(size=2), age=258),
            """
            02 'a'
            02 01 00        # one leaf, without tagged fields
            01 02 00        # the crown
            01 01 02 0102   # one tagged field: tag 1, two bytes
            """,
        ),
        (
            5,
            Tree(
                name="a",
                root=Leaf(size=3, colour="red"),
                unknown_tags=((2, b"new"), (9, b"")),
            ),
            """
            02 'a' 01 ff
            03                          # tagged fields, ours among those we do not know
            02 03 'new'
            03 06 03 04 'red' 00        # tag 3: six bytes of a structure
            09 00
            """,
        ),
    ],
)
def test_each_version_has_its_own_layout(version: int, tree: Tree, wire_bytes: str) -> None:
    """Fields, nulls, compact lengths and tags depend on the version."""
    check_both_ways(tree, version, wire_bytes)


@pytest.mark.parametrize(
    ("version", "tree", "reason"),
    [
        (0, Tree(name=None), "name: null where a value is required"),
        (3, Tree(name="a", seed=1), "seed: this version has no such field"),
        (2, Tree(name="a", crown=Leaf(size=1)), "crown: this version has no such field"),
        (3, Tree(name="a", age=1), "age: this version has no such field"),
        (3, Tree(name="a", unknown_tags=((7, b""),)), "unknown_tags: this version has no such"),
        (3, Tree(name="a", leaves=(Leaf(size=1, colour=""),)), "leaves.colour: this version has"),
        (4, Tree(name="a", unknown_tags=((7, b""), (6, b""))), "tagged fields: tags are not asc"),
        (4, Tree(name="a", age=1, unknown_tags=((1, b""),)), "tagged fields: tags are not asc"),
        (4, Tree(name="a", leaves=(Leaf(size=300),)), "leaves.size: "),
    ],
)
def test_a_value_that_a_version_cannot_carry_is_refused(
    version: int, tree: Tree, reason: str
) -> None:
    """Only ignorable fields may be dropped."""
    with pytest.raises(WireError, match=f"Tree v{version}, {reason}"):
        encode(tree, version)


def test_an_ignorable_field_is_dropped() -> None:
    """Kafka's schema marks the fields that older versions may drop."""
    assert encode(Tree(name="a", hint=1), 2) == encode(Tree(name="a"), 2)


@pytest.mark.parametrize(
    ("wire_bytes", "reason"),
    [
        ("02 'a' 02 01 01", "leaves.tagged fields"),
        ("02 'a' 7f 01", "leaves: 126 elements cannot fit"),
        ("02 'a' 01 ff 01 01 03 010203", "tagged fields: 1 bytes left over"),
        ("02 'a' 01 ff 01 01 01 01", "tagged fields"),
        ("02 'a' 01 ff 02 03 02 0000 01 02 0000", "tagged fields: tags are not ascending"),
    ],
)
def test_the_error_names_the_field(wire_bytes: str, reason: str) -> None:
    """A reader of the log line finds the field in Kafka's schema."""
    with pytest.raises(WireError, match=f"Tree v4, {reason}"):
        decode(Tree, octets(wire_bytes), 4)


def test_a_codec_is_assembled_once() -> None:
    """Assembling costs far more than decoding."""
    assert message_codec(Tree, 4) is message_codec(Tree, 4)
    assert message_codec(Tree, 4) is not message_codec(Tree, 5)
