"""What a client may make a group remember has a limit."""

import pytest

from coordinator.replies import JoinGroupReply
from coordinator.sizes import MEMBER_BYTES_MAX, NAME_BYTES_MAX, UNKNOWN_TOPICS_MAX
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, subscription

FITS = MEMBER_BYTES_MAX - 10


@pytest.mark.parametrize(
    ("size", "error"),
    [(FITS, ErrorCode.NONE), (MEMBER_BYTES_MAX + 1, ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_a_protocol_list(group: GroupScript, size: int, error: ErrorCode) -> None:
    """All of its protocols together; nothing is left of a list that is refused."""
    group.given_consumer_group(given_native("n1"))
    first = (("range", b"\0\0" + bytes(8)), ("other", bytes(size - 20)))
    reply = group.join("c1", protocols=first)
    assert reply.error == error
    assert ("c1" in group.consumer.members) is (error == ErrorCode.NONE)


def test_an_assignment(group: GroupScript) -> None:
    """Each member's for itself; the others go on waiting for a leader that makes sense."""
    member_id = group.take_id()
    group.send_join(member_id)
    group.wait(3_000)
    too_much = {"foo": range(MEMBER_BYTES_MAX // 4)}
    reply = group.sync(member_id, 1, assignments={member_id: too_much})
    assert reply.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.synced(member_id, 1, assignments={member_id: {"foo": (0,)}}) == {"foo": (0,)}


def test_a_subscription(group: GroupScript) -> None:
    """By name, in a native heartbeat."""
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
def test_topics_that_do_not_exist(group: GroupScript, names: int, error: ErrorCode) -> None:
    """Those that do are not counted. Native and classic."""
    topics = ["foo", *(f"nowhere-{number}" for number in range(names))]
    group.given_consumer_group(given_native("n1"))
    assert group.native("n1", 10, topics=topics).error == error
    assert group.join(version=3, protocols=(("range", subscription(topics)),)).error == error


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("is_static", [False, True])
def test_a_name(group: GroupScript, version: int, is_static: bool) -> None:
    """A member id is made of it, which neither an answer nor the log could hold; that of the leader
    has everybody's."""

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
