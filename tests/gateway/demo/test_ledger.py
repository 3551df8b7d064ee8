"""The ledger: records lost or delivered twice, partitions owned twice, moved and unowned."""

import pytest

from gateway.demo.ledger import Change, Disturbance, Ledger, Process
from gateway.demo.reports import (
    AssignedReport,
    ClosedReport,
    CommittedReport,
    ConsumedReport,
    ConsumerReport,
    LostReport,
    RevokedReport,
    TroubledReport,
)

A = Process(member="a", incarnation=1)
A2 = Process(member="a", incarnation=2)
B = Process(member="b", incarnation=1)
C = Process(member="c", incarnation=1)


def assigned_report(at_s: float, *partitions: int) -> AssignedReport:
    return AssignedReport(at_s=at_s, partitions=partitions)


def revoked_report(at_s: float, *partitions: int) -> RevokedReport:
    return RevokedReport(at_s=at_s, partitions=partitions)


def lost_report(at_s: float, *partitions: int) -> LostReport:
    return LostReport(at_s=at_s, partitions=partitions)


def consumed_report(*runs: tuple[int, int, int]) -> ConsumedReport:
    return ConsumedReport(at_s=0, partition=0, runs=runs)


def committed_report(at_s: float, offset: int) -> CommittedReport:
    return CommittedReport(at_s=at_s, offsets=((0, offset),))


def ledger(*reports: tuple[Process, ConsumerReport], partitions: int = 2) -> Ledger:
    books = Ledger(partitions)
    for process, report in reports:
        books.record(process, report)
    return books


def test_a_record_is_lost_if_no_process_got_it() -> None:
    """A lost record was produced, but delivered by no process."""
    books = ledger((A, consumed_report((0, 10, 2))), (B, consumed_report((1, 7, 2))))
    assert books.never_delivered(7) == 0
    assert books.never_delivered(8) == 1
    assert books.count_delivered() == 8


def test_a_record_delivered_twice_counts_once() -> None:
    """The ledger counts records, not deliveries, and the receivers do not matter."""
    books = ledger(
        (A, consumed_report((0, 4, 1))),
        (B, consumed_report((2, 5, 1))),
        (A2, consumed_report((3, 4, 1))),
    )
    assert books.delivered_again() == 2
    assert books.count_delivered() == 8
    assert books.delivered_numbers() == 5


def test_successive_owners_do_not_overlap() -> None:
    """The next owner may begin at the moment when the last one ends."""
    books = ledger(
        (A, assigned_report(1, 0, 1)), (A, revoked_report(2, 1)), (B, assigned_report(2, 1))
    )
    assert books.owned_twice() == set()
    assert books.owners() == {0: {"a"}, 1: {"b"}}


@pytest.mark.parametrize("late_first", [False, True])
def test_overlapping_owners_are_found_in_any_order_of_reports(late_first: bool) -> None:
    """Reports of different processes arrive out of order, so their timestamps decide."""
    first: list[tuple[Process, ConsumerReport]] = [
        (A, assigned_report(1, 0)),
        (A, revoked_report(3, 0)),
    ]
    second: list[tuple[Process, ConsumerReport]] = [
        (B, assigned_report(2.9, 0)),
        (B, revoked_report(4, 0)),
    ]
    books = ledger(*(second + first if late_first else first + second))
    assert books.owned_twice() == {0}


def test_an_owner_that_never_revoked_overlaps_all_later_ones() -> None:
    """A short second ownership must not hide the third."""
    books = ledger(
        (A, assigned_report(1, 0)),
        (B, assigned_report(2, 0)),
        (B, revoked_report(3, 0)),
        (C, assigned_report(4, 0)),
    )
    assert books.owned_twice() == {0}
    assert books.owners()[0] == {"a", "c"}


def test_two_processes_of_one_member_count_as_two_owners() -> None:
    """A replacement that starts before its predecessor revoked is harmful."""
    books = ledger(
        (A, assigned_report(1, 0)), (A2, assigned_report(2, 0)), (A, revoked_report(3, 0))
    )
    assert books.owned_twice() == {0}


def test_a_dead_process_owns_nothing() -> None:
    """Ownership ends with the process, whatever its last report was."""
    books = ledger((A, assigned_report(1, 0)))
    books.process_ended(A, 5)
    books.record(B, assigned_report(5, 0))
    assert books.owned_twice() == set()
    assert books.owners() == {0: {"b"}, 1: set()}


def test_a_closed_consumer_owns_nothing() -> None:
    """Closing ends ownership without a revoke callback."""
    books = ledger(
        (A, assigned_report(1, 0)), (A, ClosedReport(at_s=2)), (B, assigned_report(2, 0))
    )
    assert books.owned_twice() == set()


def test_the_partitions_of_a_fenced_member_count_separately() -> None:
    """The member learns of the fence with its next heartbeat, and its commits are refused."""
    books = ledger(
        (A, assigned_report(1, 0, 1)), (B, assigned_report(2, 0)), (A, lost_report(3, 0, 1))
    )
    assert books.owned_twice() == set()
    assert books.held_after_fencing() == {0}


def test_the_highest_acknowledged_commit_counts() -> None:
    """A slow answer to an earlier commit changes nothing."""
    books = ledger(
        (A, CommittedReport(at_s=1, offsets=((0, 10), (1, 4)))),
        (A, CommittedReport(at_s=2, offsets=((0, 7),))),
        (A, TroubledReport(at_s=3, doing="commit", error="no")),
    )
    assert books.acknowledged_commits == {0: 10, 1: 4}


@pytest.mark.parametrize(
    ("second", "partitions"),
    [
        (consumed_report((6, 10, 2)), set[int]()),
        (consumed_report((4, 10, 2)), {0}),
        (committed_report(5, 3), set[int]()),
        (committed_report(5, 2), {0}),
    ],
)
def test_a_new_owner_may_not_begin_before_a_commit(
    second: ConsumerReport, partitions: set[int]
) -> None:
    """With two partitions the first has the even records: offset 3 is record 6."""
    books = ledger(
        (A, assigned_report(1, 0)),
        (A, consumed_report((0, 6, 2))),
        (A, committed_report(2, 3)),
        (A, revoked_report(3, 0)),
        (B, assigned_report(4, 0)),
        (B, second),
    )
    assert books.went_back() == partitions


def test_an_owner_is_not_compared_with_its_own_or_later_commits() -> None:
    """Answers to commits in flight may overtake each other."""
    books = ledger(
        (A, assigned_report(1, 0)),
        (A, committed_report(2, 9)),
        (A, committed_report(3, 8)),
        (A, consumed_report((4, 6, 2))),
    )
    assert books.went_back() == set()


@pytest.mark.parametrize("heard_s", [3, 6])
@pytest.mark.parametrize(("begin", "partitions"), [(8, set[int]()), (7, {0})])
def test_a_client_that_overwrites_its_own_commit_counts_with_the_last(
    heard_s: float, begin: int, partitions: set[int]
) -> None:
    """librdkafka repeats a commit after a retriable error, even after newer ones, so the older
    commit is stored last. On a busy machine it receives the error after the partition has a new
    owner."""
    books = ledger(
        (A, assigned_report(1, 0)),
        (A, committed_report(2, 9)),
        (A, revoked_report(4, 0)),
        (B, assigned_report(5, 0)),
        (B, committed_report(7, begin)),
        (A, committed_report(heard_s, 8)),
    )
    assert books.went_back() == partitions


def test_overwriting_anothers_commit_is_a_violation() -> None:
    """This includes a client whose own commit was in flight when it revoked the partition."""
    books = ledger(
        (A, assigned_report(1, 0)),
        (A, revoked_report(2, 0)),
        (B, assigned_report(3, 0)),
        (B, committed_report(4, 9)),
        (A, committed_report(5, 8)),
        (B, revoked_report(6, 0)),
        (C, assigned_report(7, 0)),
        (C, committed_report(8, 8)),
    )
    assert books.went_back() == {0}


def test_a_step_counts_moves_disturbances_and_unowned_time() -> None:
    """`a` is replaced: partition 0 goes to `b` for a moment, and partition 1 stays with `b`."""
    books = ledger(
        (A, assigned_report(0, 0)),
        (B, assigned_report(0, 1)),
        (A, revoked_report(10, 0)),
        (B, assigned_report(11, 0)),
        (B, revoked_report(12, 0)),
        (A2, assigned_report(14, 0)),
    )
    assert books.disturbance("a", 9, 20) == Disturbance(
        partitions_moved=1, members_disturbed=1, unowned_partition_s=1 + 2
    )


def test_a_partition_that_returns_to_its_member_has_not_moved() -> None:
    """A static member's replacement continues it, and an eager rebalance may revoke everything for
    nothing."""
    books = ledger(
        (A, assigned_report(0, 0)),
        (B, assigned_report(0, 1)),
        (A, revoked_report(10, 0)),
        (B, revoked_report(10, 1)),
        (A2, assigned_report(12, 0)),
        (B, assigned_report(13, 1)),
    )
    assert books.disturbance("a", 9, 20) == Disturbance(
        partitions_moved=0, members_disturbed=1, unowned_partition_s=2 + 3
    )


def test_a_step_counts_only_its_own_time() -> None:
    """Each of the successive steps has its own figures."""
    books = ledger(
        (A, assigned_report(0, 0, 1)),
        (A, revoked_report(1, 0)),
        (B, assigned_report(2, 0)),
        (B, revoked_report(30, 0)),
    )
    assert books.disturbance(None, 9, 20) == Disturbance(
        partitions_moved=0, members_disturbed=0, unowned_partition_s=0
    )


def test_a_partition_counts_as_unowned_only_after_its_first_owner() -> None:
    """The start of the group is no downtime."""
    books = ledger((A, assigned_report(10, 0)))
    assert books.disturbance(None, 0, 20).unowned_partition_s == 0


def test_what_a_rebalance_did_to_each_member_is_counted() -> None:
    """Nothing is counted for the replaced member, for those that kept theirs, or before the
    rebalance."""
    books = ledger(
        (A, assigned_report(1, 0, 1)),
        (C, assigned_report(1, 3)),
        (A, revoked_report(10, 0, 1)),
        (B, assigned_report(11, 0)),
        (A, assigned_report(11, 1)),
        partitions=4,
    )
    assert books.changes("b", 5, 20) == (Change(member="a", gave_up=2, got=1),)
    assert books.changes("a", 5, 20) == (Change(member="b", gave_up=0, got=1),)
    assert books.changes(None, 12, 20) == ()
