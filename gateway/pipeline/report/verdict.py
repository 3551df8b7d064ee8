"""The verdict in plain words, with references to its evidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.pipeline.report.model import ClientVersion, Totals
from gateway.pipeline.report.wording import counted, number, partition_seconds

Level: TypeAlias = Literal["good", "warning", "bad", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The answer to one question."""

    level: Level
    answer: str
    evidence: str | None = None
    """The key of its evidence, if there is any."""


_UNSAFE = ("overlaps", "non_monotonic", "lost_commits", "differences")
"""The findings that prove a fault. The others leave it open."""


def headline(totals: Totals) -> Check:
    """Was it safe?"""
    checks = safety(totals)
    broken = [check for check in checks if check.level == "bad"]
    if broken:
        is_unsafe = any(getattr(totals, name) for name in _UNSAFE)
        word = "Not safe" if is_unsafe else "Not proven safe"
        found = "; ".join(_clause(check.answer) for check in broken)
        return Check(level="bad", answer=f"{word}: {found}.")
    if not totals.groups:
        return Check(level="none", answer="Nothing to judge: the events mention no group.")
    safe = "no partition had two owners, and no committed offset went back"
    if any(check.level == "warning" for check in checks):
        return Check(level="warning", answer=f"As far as the events show, {safe}.")
    return Check(level="good", answer=f"Safe: {safe}.")


def safety(totals: Totals) -> Sequence[Check]:
    """The conditions that must hold, and whether the events suffice to check them."""
    return (
        _check(
            totals.overlaps,
            "bad",
            "overlaps",
            "No partition had two owners.",
            f"A partition was owned by two members at once ({_times(totals.overlaps)}).",
        ),
        _check(
            totals.unsure,
            "bad",
            "unsure",
            "The order of all owners is known.",
            "It is unsure whether a partition had two owners at once"
            f" ({_times(totals.unsure)}): the clocks of two gateways may differ.",
        ),
        _check(
            totals.non_monotonic,
            "bad",
            "non_monotonic",
            "No committed offset went back, unless the owner of the partition intended it.",
            f"A committed offset went back ({_times(totals.non_monotonic)}).",
        ),
        _check(
            totals.lost_commits,
            "bad",
            "lost_commits",
            "Every owner continued from the latest commit.",
            f"A commit was lost: an owner was told less ({_times(totals.lost_commits)}).",
        ),
        _check(
            totals.skips,
            "warning",
            "skips",
            "No owner started beyond the latest commit.",
            "A new owner was told more than what had been committed"
            f" ({_times(totals.skips)}): records were skipped, or the answer to a commit was lost.",
        ),
        _check(
            totals.differences,
            "bad",
            "differences",
            "All members claimed only partitions that they were granted.",
            f"A member claimed a partition that it was not granted ({_times(totals.differences)}).",
        ),
        _check(
            totals.missing_events,
            "bad",
            "missing_events",
            "No event is missing.",
            f"{counted(totals.missing_events, 'event is', 'events are')} missing, so what happened"
            " there is unknown.",
        ),
        _check(
            totals.contradictions,
            "bad",
            "contradictions",
            "No event has two versions.",
            f"{counted(totals.contradictions, 'event has', 'events have')} two versions, and it is"
            " unknown which is true.",
        ),
        _unread_lines(totals),
    )


def _unread_lines(totals: Totals) -> Check:
    """A line of garbage is harmless: if it hid an event of a group, the sequence would have a gap.
    An event with a place in a sequence that cannot be read does hide something."""
    key = "rejected_lines"
    if totals.unread_events:
        lost = (
            f"{counted(totals.unread_events, 'event')} of a group could not be read, so what"
            " happened there is unknown."
        )
        return Check(level="bad", answer=lost, evidence=key)
    return _check(
        totals.rejected_lines,
        "warning",
        key,
        "All lines of the input could be read.",
        f"{counted(totals.rejected_lines, 'line')} of the input could not be read.",
    )


def outcome(totals: Totals, clients: Sequence[ClientVersion]) -> Iterator[str]:
    """One sentence each on the result, the cost, and which members can go next."""
    yield _progress(totals)
    cost = f"{partition_seconds(totals.unowned_partition_s)} without an owner"
    if totals.migrations and totals.unowned_partition_s:
        cost += f", {number(totals.unowned_in_migrations_partition_s)} of them during migrations"
    yield f"{cost}."
    if totals.unowned_at_end:
        left = counted(totals.unowned_at_end, "partition has", "partitions have")
        yield f"{left} no owner at the end although the group has members; not counted above."
    yield (
        f"{counted(totals.rebalances, 'rebalance')} interrupted members"
        f" {counted(totals.members_disturbed, 'time')};"
        f" {counted(totals.partitions_moved, 'partition')} changed hands,"
        f" where {number(totals.partitions_moved_least)} would have been enough."
    )
    ready, too_old = sum(each.ready for each in clients), sum(each.too_old for each in clients)
    if ready:
        yield f"{counted(ready, 'member')} can switch to the consumer protocol now."
    if too_old:
        yield f"{counted(too_old, 'member')} must be upgraded first: the version is too old."


def _progress(totals: Totals) -> str:
    there = (
        "On the consumer protocol at the end:"
        f" {number(totals.groups_on_consumer)} of {counted(totals.groups, 'group')}"
    )
    others = [
        f"{what}: {number(count)}"
        for count, what in (
            (totals.groups_mixed, "with members of both protocols"),
            (totals.groups_on_classic, "on the classic protocol"),
        )
        if count
    ]
    migrations = counted(totals.migrations, "migration")
    if totals.migrations_back:
        migrations += f", {number(totals.migrations_back)} of them back to the classic protocol"
    if totals.migrations:
        migrations += f"; {number(totals.migrations_complete)} completed"
    return f"{'; '.join((there, *others))}. {migrations}."


def _check(count: int, level: Level, evidence: str, right: str, wrong: str) -> Check:
    if not count:
        return Check(level="good", answer=right)
    return Check(level=level, answer=wrong, evidence=evidence)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{number(count)} times"


def _clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].removesuffix(".")
