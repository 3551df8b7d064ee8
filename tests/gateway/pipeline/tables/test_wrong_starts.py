"""Fetched offsets below the committed ones: in hand-written histories, and in the simulator, which
loses none."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import pytest

from gateway.events.group_events import GroupDeleted, GroupForwarded, TopicsGone
from gateway.events.offset_events import OffsetsDeleted
from gateway.pipeline.tables.wrong_starts import WrongStartRow
from tests.support.folds import folded
from tests.support.offset_tales import TOPIC, OffsetTale
from tests.support.scribe import START_MS, Scribe, seconds
from tests.support.simulated_events import simulated_with_excuses

Tell: TypeAlias = Callable[[OffsetTale], None]
Found: TypeAlias = tuple[str, str, int, int | None, float | None]
"""The fetching member, the owner, the stored offset, the fetched offset, and the time."""

TALES: dict[str, tuple[Tell, tuple[Found, ...]]] = {}


def tale(*expected: Found) -> Callable[[Tell], Tell]:
    """Marks a function that writes the history of one group with the expected rows."""

    def keep(tell: Tell) -> Tell:
        TALES[tell.__name__] = (tell, expected)
        return tell

    return keep


SEEDS = range(10)


@pytest.fixture(scope="module")
def excused() -> Mapping[str, AbstractSet[tuple[str, int]]]:
    """By group: the partitions whose offsets no engine could protect, because members lied."""
    return {f"seed {seed}": simulated_with_excuses(seed)[1] for seed in SEEDS}


def played(seed: int) -> list[str]:
    """A run of the simulator with its crashes and all reports of the gateway."""
    scribe = Scribe(process_id=f"seed {seed}", group_id=f"seed {seed}")
    for step in simulated_with_excuses(seed)[0]:
        at_s = (step.at_ms - START_MS) / 1000
        scribe.beside(at_s, *step.offsets)
        (scribe.tell if step.is_durable else scribe.beside)(at_s, *step.events)
    return scribe.lines


@pytest.fixture(scope="module")
def rows() -> Mapping[str, Sequence[WrongStartRow]]:
    """By group: all histories and runs of the simulator."""
    told = {name: OffsetTale(name) for name in TALES}
    for name, it in told.items():
        TALES[name][0](it)
    lines = [line for it in told.values() for line in it.scribe.lines]
    lines += [line for seed in SEEDS for line in played(seed)]
    found: dict[str, list[WrongStartRow]] = {
        name: [] for name in (*told, *(f"seed {n}" for n in SEEDS))
    }
    for row in sorted(folded(*lines).wrong_starts, key=lambda row: row.at_ms):
        found[row.group_id].append(row)
    return found


def handed_over(it: OffsetTale) -> None:
    """a has committed 100, and b owns the partition now."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(3, "a", 100)
    it.gives(4, "a")
    it.gets(4, "b")


@tale(("b", "b", 100, 40, 5))
def the_next_owner_is_told_less(it: OffsetTale) -> None:
    """Its later commits do not matter."""
    handed_over(it)
    it.fetches(5, "b", 40)
    it.commits(6, "b", 41)


@tale(("b", "b", 100, None, 5))
def the_next_owner_is_told_that_there_is_nothing(it: OffsetTale) -> None:
    """It may never commit."""
    handed_over(it)
    it.fetches(5, "b", -1)


@tale()
def the_next_owner_is_told_the_same_and_later_more(it: OffsetTale) -> None:
    """The answer to its own commit was lost."""
    handed_over(it)
    it.fetches(5, "b", 100)
    it.fetches(6, "b", 130)


@tale(("b", "b", 100, 130, 5))
def the_next_owner_is_told_more(it: OffsetTale) -> None:
    """It skips 30 records, unless the answer to a commit was lost. Its own commit is no excuse."""
    handed_over(it)
    it.fetches(5, "b", 130)
    it.commits(5.5, "b", 131)


@tale()
def a_commit_on_its_way_explains_more(it: OffsetTale) -> None:
    """The event has the time of its answer."""
    handed_over(it)
    it.fetches(5, "b", 130)
    it.commits(5.5, "a", 130)


@tale()
def a_process_that_was_killed_explains_more(it: OffsetTale) -> None:
    """It did not report its last commits."""
    handed_over(it)
    it.scribe.process_id = "another"
    it.fetches(5, "b", 130)


@tale()
def a_transaction_explains_more(it: OffsetTale) -> None:
    """It may have been committed."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.commits(3.5, "a", 130, in_transaction=True)
    it.gives(4, "a")
    it.gets(4, "b")
    it.fetches(5, "b", 130)


@tale(("a", "a", 100, 60, 4))
def the_owner_itself_is_told_less(it: OffsetTale) -> None:
    """It is its own commit."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(3, "a", 60, 100)
    it.fetches(4, "a", 60)


@tale(("", "b", 100, 40, 5))
def who_asks_without_a_name_is_the_owner(it: OffsetTale) -> None:
    """Before v9 a fetch names no member. But an answer may cross the owner's commits."""
    handed_over(it)
    it.fetches(5, "", 40)
    it.commits(6, "b", 120)
    it.fetches(7, "", 110)


@tale(("", "b", 120, 100, 8))
def granted_again_to_the_same_owner(it: OffsetTale) -> None:
    """No commit is in flight when a partition is granted."""
    handed_over(it)
    it.fetches(5, "", 100)
    it.commits(6, "b", 120)
    it.gets(7, "b")
    it.fetches(8, "", 100)


@tale()
def an_admin_resets_through_the_gateway(it: OffsetTale) -> None:
    """From then on it is the stored offset."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.gives(4, "a")
    it.commits(5, "", 40)
    it.gets(6, "b")
    it.fetches(7, "b", 40)


@tale(("b", "b", 40, 30, 7))
def less_than_what_an_admin_has_set(it: OffsetTale) -> None:
    """A reset is a commit."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.gives(4, "a")
    it.commits(5, "", 40)
    it.gets(6, "b")
    it.fetches(7, "b", 30)


@tale()
def an_admin_deletes_through_the_gateway(it: OffsetTale) -> None:
    """Then no offset is stored."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.gives(4, "a")
    it.happens(5, OffsetsDeleted(partitions={TOPIC: (0,)}))
    it.gets(6, "b")
    it.fetches(7, "b", -1)


@tale(("b", "b", 100, None, 7))
def another_partition_was_deleted(it: OffsetTale) -> None:
    """It concerns another partition."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.gives(4, "a")
    it.happens(5, OffsetsDeleted(partitions={TOPIC: (1,), "other": (0,)}))
    it.gets(6, "b")
    it.fetches(7, "b", -1)


@tale()
def everything_begins_anew(it: OffsetTale) -> None:
    """The topic, the group or the coordinator changed."""
    for number, end in enumerate(
        (TopicsGone(topics=(TOPIC,)), GroupDeleted(), GroupForwarded(reason="connect"))
    ):
        at_s = 10 * number
        it.gets(at_s + 1, "a")
        it.commits(at_s + 3, "a", 100)
        it.gives(at_s + 4, "a")
        it.happens(at_s + 5, end)
        it.gets(at_s + 6, "b")
        it.fetches(at_s + 7, "b", -1)
        it.gives(at_s + 8, "b")


@tale()
def behind_a_transaction(it: OffsetTale) -> None:
    """The offset may have gone back, and been committed."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.commits(3, "a", 40, in_transaction=True)
    it.gives(4, "a")
    it.gets(4, "b")
    it.fetches(5, "b", 40)


@tale()
def somebody_else_asks(it: OffsetTale) -> None:
    """The answer may have crossed the commit."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.fetches(3.001, "c", 90)


@tale()
def nobody_knows_who_owns_it(it: OffsetTale) -> None:
    """The files begin late."""
    it.scribe.lose(100)
    it.commits(1, "a", 100)
    it.fetches(2, "a", 50)


@tale(("b", "b", 110, 100, 5))
def commits_are_told_late(it: OffsetTale) -> None:
    """The time of storing counts."""
    handed_over(it)
    it.fetches(5, "b", 100)
    it.commits(3.5, "a", 110, told_s=9)


@pytest.mark.parametrize("name", TALES)
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
    assert found == list(TALES[name][1])


def test_the_simulator_loses_no_commit(
    rows: Mapping[str, Sequence[WrongStartRow]], excused: Mapping[str, AbstractSet[tuple[str, int]]]
) -> None:
    """Its runs have rebalances, conversions, crashes, lost answers, and recreated topics."""
    for name, partitions in excused.items():
        lost = [row for row in rows[name] if row.finding == "lost"]
        assert not [row for row in lost if (row.topic, row.partition) not in partitions]
