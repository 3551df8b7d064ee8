"""The limit of an answer about many groups, held before the answer is built."""

import pytest

from gateway.data_path.entries import bytes_of
from gateway.groups import answer_room
from gateway.groups.answer_room import AnswerRoom
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


def test_parts_are_taken_up_to_the_limit_and_not_one_byte_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that is in the answer counts together."""
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


def test_nothing_is_taken_after_a_part_that_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small: the answer would have holes that depend on the order of the groups."""
    monkeypatch.setattr(answer_room, "ANSWER_BYTES_MAX", 1_000)
    room = AnswerRoom()
    assert not room.takes(described("large", user_data_bytes=5_000))
    assert not room.takes(described("small", user_data_bytes=0))
