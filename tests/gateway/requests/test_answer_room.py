"""The size limit of an answer about many groups, checked before the answer is built."""

import pytest

from gateway.data_path.entries import bytes_of
from gateway.requests import answer_room
from gateway.requests.answer_room import AnswerRoom
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember


def described(group_id: str, *, user_data_bytes: int) -> DescribedGroup:
    """A group with one member."""
    member = DescribedGroupMember(
        member_id="m",
        client_id="c",
        client_host="/",
        member_metadata=bytes(user_data_bytes),
        member_assignment=b"",
    )
    return DescribedGroup(
        group_id=group_id, protocol_type="consumer", protocol_data="", members=(member,)
    )


def test_parts_are_taken_exactly_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All parts of the answer count together."""
    parts = [described(group_id, user_data_bytes=1_000) for group_id in ("a", "b")]
    needed = sum(bytes_of(part, 10_000) for part in parts)
    monkeypatch.setattr(answer_room, "ANSWER_BYTES_MAX", needed)
    room = AnswerRoom()
    assert [room.takes(part) for part in parts] == [True, True]
    assert not room.is_full

    monkeypatch.setattr(answer_room, "ANSWER_BYTES_MAX", needed - 1)
    room = AnswerRoom()
    assert [room.takes(part) for part in parts] == [True, False]
    assert room.is_full


def test_no_part_is_taken_after_one_that_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the missing parts would depend on their sizes."""
    monkeypatch.setattr(answer_room, "ANSWER_BYTES_MAX", 1_000)
    room = AnswerRoom()
    assert not room.takes(described("large", user_data_bytes=5_000))
    assert not room.takes(described("small", user_data_bytes=0))
