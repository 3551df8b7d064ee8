"""The books: what is lost, twice delivered, twice owned, moved and unowned."""

import pytest

from gateway.demo.ledger import Disturbance, Ledger, Process
from gateway.demo.reports import (
    Assigned,
    Closed,
    Committed,
    Consumed,
    ConsumerReport,
    Lost,
    Revoked,
    Troubled,
)

A = Process(member="a", incarnation=1)
A2 = Process(member="a", incarnation=2)
B = Process(member="b", incarnation=1)
C = Process(member="c", incarnation=1)


def assigned(at_s: float, *partitions: int) -> Assigned:
    return Assigned(at_s=at_s, partitions=partitions)


def revoked(at_s: float, *partitions: int) -> Revoked:
    return Revoked(at_s=at_s, partitions=partitions)


def lost(at_s: float, *partitions: int) -> Lost:
    return Lost(at_s=at_s, partitions=partitions)


def consumed(*runs: tuple[int, int, int]) -> Consumed:
    return Consumed(at_s=0, partition=0, runs=runs)


def committed(at_s: float, offset: int) -> Committed:
    return Committed(at_s=at_s, offsets=((0, offset),))


def ledger(*reports: tuple[Process, ConsumerReport], partitions: int = 2) -> Ledger:
    books = Ledger(partitions)
    for process, report in reports:
        books.hear(process, report)
    return books


def test_a_record_is_lost_if_nobody_ever_got_it() -> None:
    """Produced and never delivered, over all processes together."""
    books = ledger((A, consumed((0, 10, 2))), (B, consumed((1, 7, 2))))
    assert books.never_delivered(7) == 0
    assert books.never_delivered(8) == 1
    assert books.delivered() == 8


def test_a_record_is_counted_as_delivered_twice_once() -> None:
    """The count is of records, not of deliveries, and it does not matter to whom."""
    books = ledger((A, consumed((0, 4, 1))), (B, consumed((2, 5, 1))), (A2, consumed((3, 4, 1))))
    assert books.delivered_again() == 2
    assert books.delivered() == 8
    assert books.delivered_numbers() == 5


def test_one_owner_after_the_other_is_no_overlap() -> None:
    """The next owner may come at the very moment the last one has given up."""
    books = ledger((A, assigned(1, 0, 1)), (A, revoked(2, 1)), (B, assigned(2, 1)))
    assert books.owned_twice() == set()
    assert books.owners() == {0: {"a"}, 1: {"b"}}


@pytest.mark.parametrize("late_first", [False, True])
def test_two_owners_at_a_time_are_found_in_any_order_of_reports(late_first: bool) -> None:
    """Reports of different processes arrive out of order; their stamps decide."""
    first: list[tuple[Process, ConsumerReport]] = [(A, assigned(1, 0)), (A, revoked(3, 0))]
    second: list[tuple[Process, ConsumerReport]] = [(B, assigned(2.9, 0)), (B, revoked(4, 0))]
    books = ledger(*(second + first if late_first else first + second))
    assert books.owned_twice() == {0}


def test_an_owner_that_never_gave_up_overlaps_all_later_ones() -> None:
    """Not only its immediate successor: a short second ownership must not hide the third."""
    books = ledger(
        (A, assigned(1, 0)), (B, assigned(2, 0)), (B, revoked(3, 0)), (C, assigned(4, 0))
    )
    assert books.owned_twice() == {0}
    assert books.owners()[0] == {"a", "c"}


def test_the_two_processes_of_one_member_count_as_two_owners() -> None:
    """A replacement that starts before its predecessor gave up is exactly the harm to find."""
    books = ledger((A, assigned(1, 0)), (A2, assigned(2, 0)), (A, revoked(3, 0)))
    assert books.owned_twice() == {0}


def test_a_dead_process_owns_nothing() -> None:
    """Ownership ends with the process, whatever its last word was."""
    books = ledger((A, assigned(1, 0)))
    books.process_ended(A, 5)
    books.hear(B, assigned(5, 0))
    assert books.owned_twice() == set()
    assert books.owners() == {0: {"b"}, 1: set()}


def test_a_closed_consumer_owns_nothing() -> None:
    """Closing ends what no revoke callback ended."""
    books = ledger((A, assigned(1, 0)), (A, Closed(at_s=2)), (B, assigned(2, 0)))
    assert books.owned_twice() == set()


def test_what_a_fenced_member_held_is_counted_apart() -> None:
    """It learns of the fence only with its next heartbeat, and its commits are refused."""
    books = ledger((A, assigned(1, 0, 1)), (B, assigned(2, 0)), (A, lost(3, 0, 1)))
    assert books.owned_twice() == set()
    assert books.held_after_fencing() == {0}


def test_the_highest_acknowledged_commit_counts() -> None:
    """A slow answer to an earlier commit takes nothing back."""
    books = ledger(
        (A, Committed(at_s=1, offsets=((0, 10), (1, 4)))),
        (A, Committed(at_s=2, offsets=((0, 7),))),
        (A, Troubled(at_s=3, doing="commit", error="no")),
    )
    assert books.acknowledged_commits == {0: 10, 1: 4}


@pytest.mark.parametrize(
    ("second", "partitions"),
    [
        (consumed((6, 10, 2)), set[int]()),
        (consumed((4, 10, 2)), {0}),
        (committed(5, 3), set[int]()),
        (committed(5, 2), {0}),
    ],
)
def test_a_new_owner_may_not_begin_before_a_commit(
    second: ConsumerReport, partitions: set[int]
) -> None:
    """Of two partitions the first has the even records: offset 3 is record 6."""
    books = ledger(
        (A, assigned(1, 0)),
        (A, consumed((0, 6, 2))),
        (A, committed(2, 3)),
        (A, revoked(3, 0)),
        (B, assigned(4, 0)),
        (B, second),
    )
    assert books.went_back() == partitions


def test_an_owner_is_not_measured_by_its_own_commits_or_by_later_ones() -> None:
    """Answers to commits in flight may overtake each other."""
    books = ledger(
        (A, assigned(1, 0)),
        (A, committed(2, 9)),
        (A, committed(3, 8)),
        (A, consumed((4, 6, 2))),
    )
    assert books.went_back() == set()


@pytest.mark.parametrize("heard_s", [3, 6])
@pytest.mark.parametrize(("begin", "partitions"), [(8, set[int]()), (7, {0})])
def test_who_undid_a_commit_by_itself_is_taken_at_its_last_word(
    heard_s: float, begin: int, partitions: set[int]
) -> None:
    """librdkafka sends a commit that was refused for the moment again, after newer ones: then the
    older one is stored last. On a busy machine it hears so when there is a new owner already."""
    books = ledger(
        (A, assigned(1, 0)),
        (A, committed(2, 9)),
        (A, revoked(4, 0)),
        (B, assigned(5, 0)),
        (B, committed(7, begin)),
        (A, committed(heard_s, 8)),
    )
    assert books.went_back() == partitions


def test_nobody_undoes_the_commit_of_another() -> None:
    """Not even a client that had one of its own on its way when it gave the partition up."""
    books = ledger(
        (A, assigned(1, 0)),
        (A, revoked(2, 0)),
        (B, assigned(3, 0)),
        (B, committed(4, 9)),
        (A, committed(5, 8)),
        (B, revoked(6, 0)),
        (C, assigned(7, 0)),
        (C, committed(8, 8)),
    )
    assert books.went_back() == {0}


def test_a_step_counts_what_moved_who_was_disturbed_and_what_was_unowned() -> None:
    """Here `a` is replaced: partition 0 goes to `b` for a moment, partition 1 rests with `b`."""
    books = ledger(
        (A, assigned(0, 0)),
        (B, assigned(0, 1)),
        (A, revoked(10, 0)),
        (B, assigned(11, 0)),
        (B, revoked(12, 0)),
        (A2, assigned(14, 0)),
    )
    assert books.disturbance("a", 9, 20) == Disturbance(
        partitions_moved=1, members_disturbed=1, unowned_partition_s=1 + 2
    )


def test_a_partition_that_returns_to_its_member_has_not_moved() -> None:
    """A static member's replacement takes its place; an eager rebalance revokes all for nothing."""
    books = ledger(
        (A, assigned(0, 0)),
        (B, assigned(0, 1)),
        (A, revoked(10, 0)),
        (B, revoked(10, 1)),
        (A2, assigned(12, 0)),
        (B, assigned(13, 1)),
    )
    assert books.disturbance("a", 9, 20) == Disturbance(
        partitions_moved=0, members_disturbed=1, unowned_partition_s=2 + 3
    )


def test_what_happened_outside_a_step_does_not_count_for_it() -> None:
    """Steps follow each other; each has its own figures."""
    books = ledger(
        (A, assigned(0, 0, 1)), (A, revoked(1, 0)), (B, assigned(2, 0)), (B, revoked(30, 0))
    )
    assert books.disturbance(None, 9, 20) == Disturbance(
        partitions_moved=0, members_disturbed=0, unowned_partition_s=0
    )


def test_before_its_first_owner_a_partition_misses_none() -> None:
    """The start of the group is no downtime."""
    books = ledger((A, assigned(10, 0)))
    assert books.disturbance(None, 0, 20).unowned_partition_s == 0
