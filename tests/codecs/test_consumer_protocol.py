"""The embedded consumer protocol, from captured bytes of real clients.

`test_against_kio.py` has the layouts of all versions.
"""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import (
    REMEMBERED_BYTES_MAX,
    VERSIONS,
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tests.support.codecs import octets, values

OWNED = (TopicPartition(topic="t", partitions=(0, 3)),)


@pytest.mark.parametrize(
    ("wire", "version", "value"),
    [
        pytest.param(
            "0003 00000001 0001 't' 00000000 00000000 ffffffff 0000",
            3,
            Subscription(topics=("t",), user_data=b"", rack_id=""),
            id="librdkafka: empty user data and rack, no generation",
        ),
        pytest.param(
            "0000 00000001 0001 't' 00000004 0001aaaa",
            0,
            Subscription(topics=("t",), user_data=b"\x00\x01\xaa\xaa"),
            id="kafka-python sticky: a version in front of its user data",
        ),
        pytest.param(
            "0001 00000001 0001 't' ffffffff 00000000",
            1,
            Subscription(topics=("t",)),
            id="platformatic: null user data, nothing owned",
        ),
        pytest.param(
            "0001 00000001 0001 't' 00000000",
            1,
            Subscription(topics=("t",), user_data=b""),
            id="kafka-go, kafkajs 1, platformatic 1: the fields of version 0, deviation D24",
        ),
        pytest.param(
            "0000 00000002 0001 'z' 0001 'a' 00000000",
            0,
            Subscription(topics=("z", "a"), user_data=b""),
            id="unsorted topics keep their order",
        ),
        pytest.param(
            "0000 00000001 0001 't' ffffffff 00000000",
            0,
            Subscription(topics=("t",)),
            id="trailing bytes are ignored, as in Kafka",
        ),
    ],
)
def test_captured_bytes_of_real_clients_decode(
    wire: str, version: int, value: Subscription
) -> None:
    """No client is refused for the way it fills the fields."""
    assert decode_subscription(octets(wire)) == (version, value)


@pytest.mark.parametrize("is_short", [True, False])
def test_a_repeated_subscription_is_decoded_once_if_it_is_short(is_short: bool) -> None:
    """Memory is limited by the number and the length of those that are remembered."""
    topics = ("t" * (10 if is_short else REMEMBERED_BYTES_MAX),)
    data = encode_subscription(Subscription(topics=topics), 3)
    (_, first), (_, second) = decode_subscription(data), decode_subscription(data)
    assert first == second
    assert (first is second) is is_short


@pytest.mark.parametrize("version", [4, 32767])
def test_a_newer_version_is_read_as_version_3(version: int) -> None:
    """Versions only append fields, so trailing bytes are ignored, as in Kafka."""
    start = f"{version:04x} 00000001 0001 't' ffffffff"
    subscription = octets(f"{start} 00000000 00000005 ffff 'something new'")
    expected = Subscription(topics=("t",), generation_id=5)
    assert decode_subscription(subscription) == (version, expected)
    assignment = octets(f"{version:04x} 00000000 ffffffff 'something new'")
    assert decode_assignment(assignment) == (version, Assignment(assigned_partitions=()))


def test_a_newer_version_is_written_as_version_3() -> None:
    """Kafka also limits the version that it writes."""
    value = Assignment(assigned_partitions=OWNED)
    assert encode_assignment(value, 9) == encode_assignment(value, 3)


@pytest.mark.parametrize(
    "wire",
    [
        "",
        "00",
        "ffff 00000000 ffffffff",  # version -1
        "8000 00000000 ffffffff",
        "0000 00000001 0001 't'",  # no user data
        "0003 00000001 0001 't' ffffffff",  # version 3 with the fields of version 0
        "0001 00000001 0001 't' ffffffff 0000",  # version 1 with half of a count
        "0001 00000001 0001 't'",
        "0004 00000001 0001 't' ffffffff",  # a newer version must not have less
        "0000 ffffffff ffffffff",  # null topics
        "0000 7fffffff ffffffff",
        "0000 00000000 fffffffe",
    ],
)
def test_malformed_bytes_are_a_wire_error(wire: str) -> None:
    """The caller answers such a member with INCONSISTENT_GROUP_PROTOCOL."""
    with pytest.raises(WireError):
        decode_subscription(octets(wire))


def test_a_negative_version_cannot_be_written() -> None:
    """Neither a subscription nor an assignment can have one."""
    with pytest.raises(WireError):
        encode_subscription(Subscription(topics=()), -1)
    with pytest.raises(WireError):
        encode_assignment(Assignment(assigned_partitions=()), -1)


def test_topics_and_partitions_are_written_in_sorted_order() -> None:
    """Equal subscriptions then have equal bytes, as from Kafka's encoder."""
    b, a = (TopicPartition(topic=name, partitions=(3, 0, 10)) for name in "ba")
    in_order = tuple(TopicPartition(topic=name, partitions=(0, 3, 10)) for name in "ab")
    _, subscription = decode_subscription(
        encode_subscription(Subscription(topics=("b", "a"), owned_partitions=(b, a)), 1)
    )
    assert subscription == Subscription(topics=("a", "b"), owned_partitions=in_order)
    _, assignment = decode_assignment(encode_assignment(Assignment(assigned_partitions=(b, a)), 0))
    assert assignment == Assignment(assigned_partitions=in_order)


def test_an_old_version_omits_newer_fields() -> None:
    """The fields are ignorable: an old member does not state owned partitions."""
    value = Subscription(topics=("t",), owned_partitions=OWNED, generation_id=3, rack_id="r")
    assert encode_subscription(value, 0) == encode_subscription(Subscription(topics=("t",)), 0)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_a_value_survives_a_round_trip(version: int, data: st.DataObject) -> None:
    """Decoding and encoding yields the same bytes once they are sorted."""
    subscription = encode_subscription(data.draw(values(Subscription, version)), version)
    assert encode_subscription(decode_subscription(subscription)[1], version) == subscription
    assignment = encode_assignment(data.draw(values(Assignment, version)), version)
    assert encode_assignment(decode_assignment(assignment)[1], version) == assignment


@given(wire=st.binary(max_size=128))
def test_random_bytes_fail_only_with_wire_error(wire: bytes) -> None:
    """A member may send any bytes here."""
    for read in (decode_subscription, decode_assignment):
        with contextlib.suppress(WireError):
            read(wire)
