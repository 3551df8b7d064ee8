"""Offsets that went back, and who did it, in hand-written histories."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pytest

from gateway.events.group_events import GroupDeleted, GroupForwarded, TopicsDeleted
from gateway.pipeline.fold.offsets import GONE_TOLD_MS_MAX, OffsetRow
from tests.support.folded_lines import folded
from tests.support.group_events import EMPTY, PREPARING, group_goes
from tests.support.offset_history import TOPIC, OffsetHistory

WriteHistory: TypeAlias = Callable[[OffsetHistory], None]
Found: TypeAlias = tuple[str, int, str | None, int | None, int | None, str | None]
"""Of a commit: the member, the lowest offset, the owner, the offset before, the owner's start, and
the finding."""

HISTORIES: dict[str, tuple[WriteHistory, tuple[Found, ...]]] = {}


def expects(*expected: Found) -> Callable[[WriteHistory], WriteHistory]:
    """Marks a function that writes the history of one group with the expected rows."""

    def keep(tell: WriteHistory) -> WriteHistory:
        HISTORIES[tell.__name__] = (tell, expected)
        return tell

    return keep


@pytest.fixture(scope="module")
def rows() -> Mapping[str, Sequence[OffsetRow]]:
    """By group, in the order of storing."""
    told = {name: OffsetHistory(name) for name in HISTORIES}
    for name, it in told.items():
        HISTORIES[name][0](it)
    lines = [line for it in told.values() for line in it.writer.lines]
    found: dict[str, list[OffsetRow]] = {name: [] for name in told}
    for row in sorted(folded(*lines).offsets, key=lambda row: (row.to_ms, row.sequence)):
        found[row.group_id].append(row)
    return found


@expects(
    ("a", 60, "a", 50, 50, None),
    ("a", 100, "a", 100, 50, None),
    ("b", 110, "b", 110, 110, None),
    ("b", 110, "b", 110, 110, None),
)
def ordinary(it: OffsetHistory) -> None:
    """Offsets grow, stay, and continue with the next owner."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(5, "a", 60, 80, 100)
    it.commits(9, "a", 100, 110)
    it.gives(10, "a")
    it.gets(10, "b")
    it.fetches(11, "b", 110)
    it.commits(15, "b", 110)
    it.commits(20, "b", 110, 130)


@expects(
    ("a", 100, "a", 50, 50, None),
    ("a", 60, "a", 100, 50, "seek"),
    ("a", 61, "a", 90, 50, "seek"),
)
def seeks(it: OffsetHistory) -> None:
    """An owner may go back within its own consumption, even between two commits of one event."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(5, "a", 100)
    it.commits(10, "a", 120, 60, 90)
    it.commits(15, "a", 95, 61)


@expects(("a", 100, "a", 50, 50, None), ("b", 90, "b", 100, 100, "non_monotonic"))
def an_owner_behind_its_start(it: OffsetHistory) -> None:
    """Records of its predecessor are consumed again."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(5, "a", 100)
    it.gives(6, "a")
    it.gets(6, "b")
    it.fetches(7, "b", 100)
    it.commits(9, "b", 105, 90, 120)


@expects(
    ("a", 100, "a", 50, 50, None),
    ("a", 110, None, 120, None, None),
    ("a", 121, None, 140, None, "non_monotonic"),
)
def a_fetch_between_commits_of_one_event(it: OffsetHistory) -> None:
    """Without an owner. The fetch tells what the first of these commits had stored, unless the last
    one is still lower."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(5, "a", 100)
    it.gives(6, "a")
    it.fetches(8, "", 120)
    it.commits(9, "a", 110, 120, 130, since_s=7)
    it.fetches(11, "", 140)
    it.commits(12, "a", 121, 130, since_s=10)


@expects(
    ("a", 100, "a", 50, 50, None),
    ("b", 105, "b", 100, 100, None),
    ("a", 104, "b", 105, None, "non_monotonic"),
    ("b", 106, "b", 104, 100, None),
    ("c", 120, "b", 106, None, None),
    ("c", 119, "b", 130, None, "non_monotonic"),
)
def somebody_other_than_the_owner(it: OffsetHistory) -> None:
    """The commit of its predecessor, or of any other client, is lower, even within one event."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(5, "a", 100)
    it.gives(6, "a")
    it.gets(6, "b")
    it.fetches(7, "b", 100)
    it.commits(8, "b", 105)
    it.commits(9, "a", 104)
    it.commits(10, "b", 106)
    it.commits(11, "c", 120, 130)
    it.commits(12, "c", 131, 119)


@expects(
    ("a", 100, "a", None, None, None),
    ("b", 500, "a", 100, None, None),
    ("a", 120, "a", 500, None, None),
    ("b", 600, "a", 120, None, None),
    ("a", 110, "a", 600, None, "seek"),
)
def a_stray_commit_ahead_of_the_owner(it: OffsetHistory) -> None:
    """The owner goes on from its own commit, so it goes back only if it commits less than that.
    The stray commits are in `differences`."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.commits(3, "b", 500)
    it.commits(4, "a", 120)
    it.commits(5, "b", 600)
    it.commits(6, "a", 110)


@expects(
    ("a", 100, "a", None, None, None),
    ("a", 99, None, 100, None, "non_monotonic"),
    ("c", 98, None, 99, None, "non_monotonic"),
    ("c", 99, None, 98, None, None),
    ("c", 97, None, 99, None, "non_monotonic"),
)
def an_owner_that_is_none_any_more(it: OffsetHistory) -> None:
    """The next owner would start there. Whether the committer owned the partition before or never,
    it decreases an owner's offset, also in a transaction."""
    it.gets(1, "a")
    it.commits(5, "a", 100)
    it.gives(6, "a")
    it.commits(7, "a", 99)
    it.commits(8, "c", 98)
    it.commits(9, "c", 99)
    it.commits(10, "c", 97, in_transaction=True)


@expects(
    ("a", 100, "a", None, None, None),
    ("a", 110, "a", 100, None, None),
    ("b", 121, "b", 120, 120, None),
)
def told_late(it: OffsetHistory) -> None:
    """A gateway that lost the group reports its commits after another one has moved the partition.
    The time of storing counts."""
    it.gets(1, "a")
    it.commits(3, "a", 100)
    it.gives(7, "a")
    it.gets(7, "b")
    it.fetches(8, "b", 120)
    it.commits(9, "b", 121)
    it.commits(6, "a", 110, 120, since_s=4, told_s=10)


@expects(
    ("a", 100, "a", None, None, None),
    ("a", 200, "a", 100, None, None),
    ("b", 150, "b", 200, 200, "non_monotonic"),
    ("b", 210, "b", 150, 200, None),
)
def a_clock_that_is_behind(it: OffsetHistory) -> None:
    """By the clock of the gateway that took over, its commits are later than all before."""
    it.gets(1, "a")
    it.commits(10, "a", 100)
    it.commits(100, "a", 200)
    it.gives(103, "a")
    it.writer.process_id = "another"
    it.gets(43, "b")
    it.fetches(44, "b", 200)
    it.commits(50, "b", 150)
    it.commits(104, "b", 210, since_s=99)


@expects(
    ("a", 100, "a", 50, 50, None),
    ("a", 150, "a", 100, 50, None),
    ("a", 60, "a", 150, 50, "seek"),
)
def a_restart(it: OffsetHistory) -> None:
    """The new process reports the members' starts again, and they may go back to these."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(5, "a", 100)
    it.writer.process_id = "another"
    it.fetches(6, "a", 100)
    it.commits(7, "a", 150)
    it.fetches(8, "a", 150)
    it.commits(9, "a", 60)


@expects(
    ("a", 100, "a", 50, 50, None),
    ("", 40, "b", 100, None, "reset"),
    ("b", 60, "b", 40, 40, None),
    ("", 40, "b", 60, None, "non_monotonic"),
)
def a_reset_under_way(it: OffsetHistory) -> None:
    """It was accepted before the new owner joined, whose fetch waits for it. Later there is no
    excuse."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(5, "a", 100)
    it.gives(8, "a")
    it.gets(9, "b")
    it.commits(10, "", 40)
    it.fetches(11, "b", 40)
    it.commits(12, "b", 60)
    it.commits(13, "", 40)


@expects(
    ("a", 100, "a", 50, 50, None),
    ("", 40, None, 100, None, "reset"),
)
def an_owner_that_a_restart_forgot(it: OffsetHistory) -> None:
    """An empty group has no owners, so an admin may reset its offsets."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(5, "a", 100)
    it.writer.tell(8, group_goes(PREPARING, EMPTY))
    it.commits(9, "", 40)


@expects(
    ("old", 100, "old", 50, 50, None),
    ("new", 100, "new", 100, 100, None),
    ("new", 99, "new", 100, 100, "non_monotonic"),
)
def a_static_member_under_a_new_id(it: OffsetHistory) -> None:
    """It owns the partitions of the old member and continues there."""
    it.gets(1, "old")
    it.fetches(2, "old", 50)
    it.commits(5, "old", 100)
    it.gives(6, "old")
    it.gets(6, "new")
    it.fetches(7, "new", 100)
    it.commits(8, "new", 100)
    it.commits(9, "new", 99)


@expects(
    ("", 100, None, None, None, None),
    ("", 40, None, 100, None, "reset"),
    ("a", 50, "a", 40, 40, None),
    ("", 30, "a", 50, None, "non_monotonic"),
    ("", 200, None, 30, None, "reset"),
)
def an_admin_resets(it: OffsetHistory) -> None:
    """It is listed, and so is a forward reset of a group with members. With an owner present, the
    committer is another client."""
    it.commits(1, "", 100)
    it.commits(2, "", 40)
    it.gets(3, "a")
    it.fetches(4, "a", 40)
    it.commits(5, "a", 50)
    it.commits(6, "", 30)
    it.gives(7, "a")
    it.commits(8, "", 200)


@expects(
    ("a", 100, "a", None, None, None),
    ("b", 15, "b", 10, 10, None),
    ("b", 12, "b", 15, 10, "seek"),
)
def reset_around_the_gateway(it: OffsetHistory) -> None:
    """The owner starts below all reported offsets, and continues there: see wrong_starts."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.gives(3, "a")
    it.gets(4, "b")
    it.fetches(5, "b", 10)
    it.commits(6, "b", 15)
    it.commits(7, "b", 12)


@expects(("a", 100, "a", None, None, None), ("b", 5, "b", None, None, None))
def nothing_is_committed_any_more(it: OffsetHistory) -> None:
    """The owner starts where its settings say: see wrong_starts."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.gives(3, "a")
    it.gets(4, "b")
    it.fetches(5, "b", -1)
    it.commits(6, "b", 5)


@expects(("a", 100, "a", None, None, None), ("b", 99, "b", 100, 100, "non_monotonic"))
def an_owner_that_does_not_ask(it: OffsetHistory) -> None:
    """It is the predecessor's start."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.gives(3, "a")
    it.gets(4, "b")
    it.commits(6, "b", 99)


@expects(
    ("a", 100, "a", None, None, None),
    ("b", 60, "b", 50, 50, None),
    ("b", 40, "b", 60, 50, "non_monotonic"),
)
def an_owner_that_asks_on_a_connection_of_its_own(it: OffsetHistory) -> None:
    """A client that fetches without a member id just as the partition moves counts as the owner."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.gives(3, "a")
    it.gets(4, "b")
    it.fetches(5, "", 50)
    it.commits(6, "b", 60)
    it.commits(7, "b", 40)


@expects(
    ("a", 80, "a", 50, 50, None),
    ("a", 70, "a", 50, 50, None),
    ("", 60, "a", 50, 50, None),
    ("a", 40, "a", 50, 50, "non_monotonic"),
    ("b", 45, "a", 50, None, "non_monotonic"),
    ("", 30, None, 50, None, None),
)
def transactions(it: OffsetHistory) -> None:
    """They may be aborted, and then their records are consumed again. No start of an owner may be
    behind its own, and no other member commits for it. A commit without a member id may be the
    owner's."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(3, "a", 100, 80, 120, in_transaction=True)
    it.commits(4, "a", 70, in_transaction=True)
    it.commits(5, "", 60, in_transaction=True)
    it.commits(6, "a", 40, in_transaction=True)
    it.commits(7, "b", 45, in_transaction=True)
    it.gives(8, "a")
    it.commits(9, "", 30, in_transaction=True)


@expects(
    ("a", 100, "a", 50, 50, None),
    ("a", 3, None, None, None, None),
    ("b", 7, "b", 0, 0, None),
)
def a_topic_made_anew(it: OffsetHistory) -> None:
    """The new topic has other offsets, whoever owned the old one."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(3, "a", 100)
    it.happens(4, TopicsDeleted(topics=("other", TOPIC)))
    it.commits(5, "a", 3)
    it.gets(6, "b")
    it.fetches(7, "b", 0)
    it.commits(8, "b", 7)


@expects(
    ("a", 100, "a", 50, 50, None),
    ("a", 40, "a", 100, 50, "non_monotonic"),
    ("a", 3, "a", 40, 50, "reset"),
)
def a_topic_made_anew_that_is_told_late(it: OffsetHistory) -> None:
    """Members may be ahead of the gateway, but not by much."""
    it.gets(1, "a")
    it.fetches(2, "a", 50)
    it.commits(2.5, "a", 100)
    it.commits(3, "a", 40)
    it.commits(4, "a", 110, 3, 5)
    it.happens(4 + GONE_TOLD_MS_MAX / 1000, TopicsDeleted(topics=(TOPIC,)))


@expects(
    ("a", 100, "a", None, None, None),
    ("b", 50, None, None, None, None),
    ("c", 40, None, 50, None, "seek"),
)
def the_clusters_own_coordinator_has_the_group(it: OffsetHistory) -> None:
    """Its events do not name owners."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.happens(3, GroupForwarded(reason="its protocol type is connect"))
    it.commits(4, "b", 50)
    it.commits(5, "c", 40)


@expects(
    ("a", 100, "a", None, None, None),
    ("c", 310, None, None, None, None),
    ("b", 297, None, 318, None, "seek"),
)
def the_cluster_takes_the_group_and_moves_a_partition(it: OffsetHistory) -> None:
    """The members give up what the engine had granted. The gateway learns of no owner then, so it
    sums up the commits of both members in intervals that overlap."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.happens(3, GroupForwarded(reason="a member is in the group in the cluster itself"))
    it.gives(3, "a")
    it.commits(8.7, "c", 310, 318, since_s=7.3, told_s=10)
    it.commits(9.4, "b", 297, since_s=6, told_s=10)


@expects(("a", 100, "a", None, None, None), ("b", 1, "b", None, None, None))
def a_group_made_anew(it: OffsetHistory) -> None:
    """Its offsets were deleted with the topic of that name."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.gives(3, "a")
    it.writer.tell(4, GroupDeleted())
    it.gets(5, "b")
    it.commits(6, "b", 1)


@expects(
    ("a", 100, None, None, None, None),
    ("b", 90, None, 100, None, "seek"),
    ("", 95, None, 90, None, "reset"),
    ("c", 80, "c", 95, 95, "non_monotonic"),
)
def the_files_start_late(it: OffsetHistory) -> None:
    """While the owner is unknown, the committer may be the owner. A member that releases the
    partition owned it."""
    it.writer.lose(100)
    it.commits(1, "a", 100)
    it.commits(2, "b", 90)
    it.gives(3, "b")
    it.commits(4, "", 95)
    it.gets(5, "c")
    it.commits(6, "c", 80)


@expects(
    ("a", 100, "a", None, None, None),
    ("b", 110, "b", 100, 100, None),
    ("a", 105, "b", 110, None, "non_monotonic"),
    ("b", 102, "b", 105, 100, "seek"),
)
def two_owners(it: OffsetHistory) -> None:
    """The latest one is the owner, even after the other has gone."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.gets(3, "b")
    it.commits(4, "b", 110)
    it.commits(5, "a", 105)
    it.gives(6, "a")
    it.commits(7, "b", 102)


@expects(("a", 100, "a", None, None, None), ("a", 90, "a", 100, None, "seek"))
def granted_twice(it: OffsetHistory) -> None:
    """A revocation was withdrawn, so the owner stays the same."""
    it.gets(1, "a")
    it.commits(2, "a", 100)
    it.gets(3, "a")
    it.commits(4, "a", 90)


@pytest.mark.parametrize("name", HISTORIES)
def test_hand_written_histories_have_the_expected_rows(
    rows: Mapping[str, Sequence[OffsetRow]], name: str
) -> None:
    """Each history states its own."""
    found = [
        (row.member_id, row.lowest, row.owner_id, row.before, row.started_at, row.finding)
        for row in rows[name]
    ]
    assert found == list(HISTORIES[name][1])
