"""Fetched offsets below the committed ones: in hand-written histories, and in the simulator, which
loses none."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pytest

from gateway.events.group_events import GroupDeleted, GroupForwarded, TopicsDeleted
from gateway.events.offset_events import OffsetsDeleted
from gateway.pipeline.fold.offsets import WrongStartRow
from tests.support.event_writer import seconds
from tests.support.folded_lines import folded
from tests.support.offset_history import TOPIC, OffsetHistory

WriteHistory: TypeAlias = Callable[[OffsetHistory], None]
Found: TypeAlias = tuple[str, str, int, int | None, float | None]
"""The fetching member, the owner, the stored offset, the fetched offset, and the time."""

HISTORIES: dict[str, tuple[WriteHistory, tuple[Found, ...]]] = {}


def expects(*expected: Found) -> Callable[[WriteHistory], WriteHistory]:
    """Marks a function that writes the history of one group with the expected rows."""

    def keep(tell: WriteHistory) -> WriteHistory:
        HISTORIES[tell.__name__] = (tell, expected)
        return tell

    return keep


@pytest.fixture(scope="module")
def rows() -> Mapping[str, Sequence[WrongStartRow]]:
    """By group: all histories and runs of the simulator."""
    told = {name: OffsetHistory(name) for name in HISTORIES}
    for name, it in told.items():
        HISTORIES[name][0](it)
    lines = [line for it in told.values() for line in it.writer.lines]
    found: dict[str, list[WrongStartRow]] = {name: [] for name in told}
    for row in sorted(folded(*lines).wrong_starts, key=lambda row: row.at_ms):
        found[row.group_id].append(row)
    return found


def handed_over(it: OffsetHistory) -> None:
    """a has committed 100, and b owns the partition now."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(3, "a", 100)
    it.gives(4, "a")
    it.gets(4, "b")


@expects(("b", "b", 100, 40, 5))
def the_next_owner_is_told_less(it: OffsetHistory) -> None:
    """Its later commits do not matter."""
    handed_over(it)
    it.fetches(5, "b", 40)
    it.commits(6, "b", 41)


@expects(("b", "b", 100, None, 5))
def the_next_owner_is_told_that_there_is_nothing(it: OffsetHistory) -> None:
    """It may never commit."""
    handed_over(it)
    it.fetches(5, "b", -1)


@expects()
def the_next_owner_is_told_the_same_and_later_more(it: OffsetHistory) -> None:
    """The answer to its own commit was lost."""
    handed_over(it)
    it.fetches(5, "b", 100)
    it.fetches(6, "b", 130)


@expects(("b", "b", 100, 130, 5))
def the_next_owner_is_told_more(it: OffsetHistory) -> None:
    """It skips 30 records, unless the answer to a commit was lost. Its own commit is no excuse."""
    handed_over(it)
    it.fetches(5, "b", 130)
    it.commits(5.5, "b", 131)


@expects()
def a_commit_on_its_way_explains_more(it: OffsetHistory) -> None:
    """The event has the time of its answer."""
    handed_over(it)
    it.fetches(5, "b", 130)
    it.commits(5.5, "a", 130)


@expects()
def a_process_that_was_killed_explains_more(it: OffsetHistory) -> None:
    """It did not report its last commits."""
    handed_over(it)
    it.writer.process_id = "another"
    it.fetches(5, "b", 130)


@expects()
def a_transaction_explains_more(it: OffsetHistory) -> None:
    """It may have been committed."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.commits(3.5, "a", 130, in_transaction=True)
    it.gives(4, "a")
    it.gets(4, "b")
    it.fetches(5, "b", 130)


@expects(("a", "a", 100, 60, 4))
def the_owner_itself_is_told_less(it: OffsetHistory) -> None:
    """It is its own commit."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(3, "a", 60, 100)
    it.fetches(4, "a", 60)


@expects(("", "b", 100, 40, 5))
def who_asks_without_a_name_is_the_owner(it: OffsetHistory) -> None:
    """Before v9 a fetch names no member. But an answer may cross the owner's commits."""
    handed_over(it)
    it.fetches(5, "", 40)
    it.commits(6, "b", 120)
    it.fetches(7, "", 110)


@expects(("", "b", 120, 100, 8))
def granted_again_to_the_same_owner(it: OffsetHistory) -> None:
    """No commit is in flight when a partition is granted."""
    handed_over(it)
    it.fetches(5, "", 100)
    it.commits(6, "b", 120)
    it.gets(7, "b")
    it.fetches(8, "", 100)


@expects()
def an_admin_resets_through_the_gateway(it: OffsetHistory) -> None:
    """From then on it is the stored offset."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.gives(4, "a")
    it.commits(5, "", 40)
    it.gets(6, "b")
    it.fetches(7, "b", 40)


@expects(("b", "b", 40, 30, 7))
def less_than_what_an_admin_has_set(it: OffsetHistory) -> None:
    """A reset is a commit."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.gives(4, "a")
    it.commits(5, "", 40)
    it.gets(6, "b")
    it.fetches(7, "b", 30)


@expects()
def an_admin_deletes_through_the_gateway(it: OffsetHistory) -> None:
    """Then no offset is stored."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.gives(4, "a")
    it.happens(5, OffsetsDeleted(partitions={TOPIC: (0,)}))
    it.gets(6, "b")
    it.fetches(7, "b", -1)


@expects(("b", "b", 100, None, 7))
def another_partition_was_deleted(it: OffsetHistory) -> None:
    """It concerns another partition."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.gives(4, "a")
    it.happens(5, OffsetsDeleted(partitions={TOPIC: (1,), "other": (0,)}))
    it.gets(6, "b")
    it.fetches(7, "b", -1)


@expects()
def everything_begins_anew(it: OffsetHistory) -> None:
    """The topic, the group or the coordinator changed."""
    for number, end in enumerate(
        (TopicsDeleted(topics=(TOPIC,)), GroupDeleted(), GroupForwarded(reason="connect"))
    ):
        at_s = 10 * number
        it.gets(at_s + 1, "a")
        it.commits(at_s + 3, "a", 100)
        it.gives(at_s + 4, "a")
        it.happens(at_s + 5, end)
        it.gets(at_s + 6, "b")
        it.fetches(at_s + 7, "b", -1)
        it.gives(at_s + 8, "b")


@expects()
def behind_a_transaction(it: OffsetHistory) -> None:
    """The offset may have gone back, and been committed."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.commits(3, "a", 40, in_transaction=True)
    it.gives(4, "a")
    it.gets(4, "b")
    it.fetches(5, "b", 40)


@expects()
def somebody_else_asks(it: OffsetHistory) -> None:
    """The answer may have crossed the commit."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.fetches(3.001, "c", 90)


@expects()
def nobody_knows_who_owns_it(it: OffsetHistory) -> None:
    """The files begin late."""
    it.writer.lose(100)
    it.commits(1, "a", 100)
    it.fetches(2, "a", 50)


@expects(("b", "b", 110, 100, 5))
def commits_are_told_late(it: OffsetHistory) -> None:
    """The time of storing counts."""
    handed_over(it)
    it.fetches(5, "b", 100)
    it.commits(3.5, "a", 110, told_s=9)


@pytest.mark.parametrize("name", HISTORIES)
def test_hand_written_histories_have_the_expected_rows(
    rows: Mapping[str, Sequence[WrongStartRow]], name: str
) -> None:
    """Each history states its own."""
    for row in rows[name]:
        assert (row.finding == "lost") == (row.told is None or row.told < row.stored)
    found = [
        (row.member_id, row.owner_id, row.stored, row.told, seconds(row.at_ms))
        for row in rows[name]
    ]
    assert found == list(HISTORIES[name][1])
