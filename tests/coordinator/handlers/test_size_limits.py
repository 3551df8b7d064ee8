"""Limits on the data that a client may make a group store."""

import pytest

from coordinator.handlers.size_limits import MEMBER_BYTES_MAX, NAME_BYTES_MAX, UNKNOWN_TOPICS_MAX
from coordinator.interface.replies import ConsumerHeartbeatReply, JoinGroupReply
from kafka_codecs.error_codes import ErrorCode
from tests.support.engine_requests import native_received
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, subscription

FITS = MEMBER_BYTES_MAX - 10


@pytest.mark.parametrize(
    ("size", "error"),
    [(FITS, ErrorCode.NONE), (MEMBER_BYTES_MAX + 1, ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_the_size_of_a_protocol_list_is_limited(
    group: GroupScript, size: int, error: ErrorCode
) -> None:
    """The limit applies to all protocols together. A refused list leaves nothing behind."""
    group.given_consumer_group(given_native("n1"))
    first = (("range", b"\0\0" + bytes(8)), ("other", bytes(size - 20)))
    reply = group.join("c1", protocols=first)
    assert reply.error == error
    assert ("c1" in group.consumer.members) is (error == ErrorCode.NONE)


def test_the_size_of_an_assignment_is_limited(group: GroupScript) -> None:
    """The limit applies to each member. The others still wait for a valid assignment of the
    leader."""
    member_id = group.take_id()
    group.send_join(member_id)
    group.wait(3_000)
    too_much = {"foo": range(MEMBER_BYTES_MAX // 4)}
    reply = group.sync(member_id, 1, assignments={member_id: too_much})
    assert reply.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.sync_assignment(member_id, 1, assignments={member_id: {"foo": (0,)}}) == {
        "foo": (0,)
    }


def test_the_size_of_a_subscription_is_limited(group: GroupScript) -> None:
    """The limit applies to the names in a native heartbeat."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    names = [f"{n:0249}" for n in range(MEMBER_BYTES_MAX // 249 + 1)]
    reply = group.native("n1", 10, topics=names)
    assert reply.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.consumer.members["n1"].topic_names == ("foo",)


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (UNKNOWN_TOPICS_MAX, ErrorCode.NONE),
        (UNKNOWN_TOPICS_MAX + 1, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_the_number_of_nonexistent_topics_is_limited(
    group: GroupScript, names: int, error: ErrorCode
) -> None:
    """Existing topics do not count. The limit applies to native and classic members."""
    topics = ["foo", *(f"nowhere-{number}" for number in range(names))]
    group.given_consumer_group(given_native("n1"))
    assert group.native("n1", 10, topics=topics).error == error
    assert group.join(version=3, protocols=(("range", subscription(topics)),)).error == error


def test_the_number_of_nonexistent_topics_in_an_assignment_is_limited(group: GroupScript) -> None:
    """The group would keep all of them."""
    member_id = group.take_id()
    group.send_join(member_id)
    group.wait(3_000)
    nowhere = {f"nowhere-{number}": (0,) for number in range(UNKNOWN_TOPICS_MAX + 1)}
    reply = group.sync(member_id, 1, assignments={member_id: nowhere})
    assert reply.error == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("is_static", [False, True])
def test_the_length_of_a_name_is_limited(group: GroupScript, version: int, is_static: bool) -> None:
    """A member id contains the name, and must fit into an answer and the log. The leader's answer
    has the ids of all members."""

    def send(name: str) -> int:
        return group.send_join(
            version=version,
            client_id="client" if is_static else name,
            instance_id=name if is_static else None,
        )

    name = "ü" * (NAME_BYTES_MAX // 2)
    token = send(name)
    group.wait(3_000)
    member_id = group.answer(token, JoinGroupReply).member_id
    assert member_id.startswith(name)
    assert len(member_id.encode()) in (0x7FFF, 0x7FFF - 1)
    reply = group.answer(send(name + "ü"), JoinGroupReply)
    assert (reply.error, reply.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")


def test_the_client_id_of_a_native_member_is_limited(group: GroupScript) -> None:
    """One that had malformed bytes may have become longer than a record can hold."""
    client_id = "\ufffd" * (NAME_BYTES_MAX // 3 + 1)
    heartbeat = native_received("n1", token=-1, client_id=client_id)
    group.feed(heartbeat)
    assert group.answer(-1, ConsumerHeartbeatReply).error == ErrorCode.UNKNOWN_SERVER_ERROR
