"""The outcome of a run of the demo, and whether it kept its promise.

Pure. The promise: no record is lost, no partition has two owners, commits are in the cluster and
the next owner begins there, and the group converts in both directions.
"""

import itertools
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.demo.group_view import Protocol
from gateway.demo.ledger import Ledger
from gateway.demo.reports import ProducedReport
from gateway.demo.roll import RollStep
from gateway.events.group_events import Direction

Conversion: TypeAlias = Literal["live", "replaced while empty", "none"]

_KINDS: Mapping[Direction, tuple[Protocol, Protocol]] = {
    "classic->consumer": ("classic", "consumer"),
    "consumer->classic": ("consumer", "classic"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the run."""

    consumers: int = 3
    partitions: int = 12
    assignor: str = "range"
    static: bool = False
    rate: int = 200
    """Records per second, over all partitions."""

    @property
    def group_is_never_empty(self) -> bool:
        """Whether a member always remains while another one is replaced."""
        return self.consumers > 1 or self.static


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTotals:
    """The figures of a completed run."""

    produced: int
    not_produced: int
    consumed: int
    lost: int
    delivered_twice: int
    partitions_with_two_owners: int
    partitions_held_after_fencing: int
    partitions_that_went_back: int
    """Partitions in which a new owner consumed or committed below an earlier commit."""
    consumers_died: int
    end_offsets: tuple[int, ...]
    acknowledged_commits: tuple[int, ...]
    committed_offsets: tuple[int, ...]
    """Read from the upstream cluster, not through the gateway; 0 where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """The whole outcome; `reason` is None if the run kept its promise."""

    options: Options
    steps: tuple[RollStep, ...]
    conversions: Mapping[Direction, Conversion]
    totals: DemoTotals | None
    reason: str | None
    verdict: tuple[str, ...] = ()
    """The verdict on the gateway's events, as `groupferry verdict` prints it."""


def totals(
    ledger: Ledger,
    produced: ProducedReport,
    committed_offsets: tuple[int, ...],
    consumers_died: int,
) -> DemoTotals:
    """Compute the figures at the end of a run."""
    acknowledged = ledger.acknowledged_commits
    return DemoTotals(
        produced=produced.acknowledged,
        not_produced=produced.failed,
        consumed=ledger.count_delivered(),
        lost=ledger.never_delivered(produced.acknowledged + produced.failed),
        delivered_twice=ledger.delivered_again(),
        partitions_with_two_owners=len(ledger.owned_twice()),
        partitions_held_after_fencing=len(ledger.held_after_fencing()),
        partitions_that_went_back=len(ledger.went_back()),
        consumers_died=consumers_died,
        end_offsets=produced.end_offsets,
        acknowledged_commits=tuple(
            acknowledged.get(partition, 0) for partition in range(len(produced.end_offsets))
        ),
        committed_offsets=committed_offsets,
    )


def conversions(
    steps: tuple[RollStep, ...], converted_live: Set[Direction]
) -> dict[Direction, Conversion]:
    """How the group changed its kind in each direction, if it did.

    `converted_live` are the directions in which the gateway converted the group with its members.
    """
    kinds = [step.group_protocol for step in steps]
    changes = set(itertools.pairwise(kinds))
    return {
        direction: (
            "none"
            if change not in changes
            else "live"
            if direction in converted_live
            else "replaced while empty"
        )
        for direction, change in _KINDS.items()
    }


def find_failure(
    options: Options, seen: Mapping[Direction, Conversion], figures: DemoTotals
) -> str | None:
    """The first broken promise in one line, or None."""
    checks = (_wrong_figures(figures), _wrong_commits(figures), _wrong_conversions(options, seen))
    return next(itertools.chain(*checks), None)


def _wrong_figures(figures: DemoTotals) -> Iterator[str]:
    if figures.not_produced:
        yield f"{figures.not_produced} records could not be produced"
    if not figures.produced:
        yield "nothing was produced"
    if figures.lost:
        yield f"{figures.lost} of {figures.produced} records were never delivered"
    if figures.partitions_with_two_owners:
        yield f"{figures.partitions_with_two_owners} partitions had two owners at a time"
    if figures.partitions_that_went_back:
        yield f"{figures.partitions_that_went_back} partitions went back behind a commit"


def _wrong_commits(figures: DemoTotals) -> Iterator[str]:
    for partition, (end, acknowledged, committed) in enumerate(
        zip(
            figures.end_offsets,
            figures.acknowledged_commits,
            figures.committed_offsets,
            strict=True,
        )
    ):
        if committed < acknowledged:
            yield (
                f"partition {partition}: {acknowledged} was acknowledged as committed, "
                f"the cluster has {committed}"
            )
        if committed != end:
            yield f"partition {partition}: committed up to {committed} of {end} records"


def _wrong_conversions(options: Options, seen: Mapping[Direction, Conversion]) -> Iterator[str]:
    for direction, conversion in seen.items():
        if conversion == "none":
            yield f"the group did not convert {direction}"
        elif conversion != "live" and options.group_is_never_empty:
            yield f"the group converted {direction} while empty, not with its members"
