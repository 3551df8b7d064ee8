"""The reports of the demo's child processes to their parent: one JSON object per line.

Every child imports this module, so its imports must stay light. Times are seconds of
CLOCK_MONOTONIC, which all processes of a machine share.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedReport:
    """The assign callback began; `partitions` are the added ones only."""

    at_s: float
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedReport:
    """The revoke callback has returned; the client gives these partitions up right after."""

    at_s: float
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostReport:
    """The lost callback has returned: the member was fenced, and others may own these already."""

    at_s: float
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedReport:
    """These record numbers reached the application, as runs of (start, stop, step)."""

    at_s: float
    partition: int
    runs: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedReport:
    """The coordinator acknowledged these commits: pairs of partition and next offset."""

    at_s: float
    offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubledReport:
    """The client library reported an error; most are temporary."""

    at_s: float
    doing: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedReport:
    """The consumer closed cleanly and owns nothing any more."""

    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedReport:
    """The numbers of acknowledged and failed records so far, and the end offset of each
    partition."""

    at_s: float
    acknowledged: int
    failed: int
    end_offsets: tuple[int, ...]
    final: bool


ConsumerReport: TypeAlias = (
    AssignedReport
    | RevokedReport
    | LostReport
    | ConsumedReport
    | CommittedReport
    | TroubledReport
    | ClosedReport
)
Report: TypeAlias = ConsumerReport | ProducedReport


def _kind_of(kind: type[Report]) -> str:
    return kind.__name__.removesuffix("Report").lower()


_KINDS: dict[str, type[Report]] = {
    _kind_of(kind): kind
    for kind in (
        AssignedReport,
        RevokedReport,
        LostReport,
        ConsumedReport,
        CommittedReport,
        TroubledReport,
        ClosedReport,
        ProducedReport,
    )
}


def encode(report: Report) -> str:
    """The report as one line of JSON, without the line end."""
    return json.dumps({"kind": _kind_of(type(report)), **asdict(report)}, separators=(",", ":"))


def decode(line: str) -> Report:
    """The report in a line made by `encode`. Raises ValueError for anything else."""
    document = json.loads(line)
    if not isinstance(document, dict) or str(document.get("kind")) not in _KINDS:
        raise ValueError(f"not a report: {line[:200]}")
    kind: Any = _KINDS[document.pop("kind")]
    if set(document) != {field.name for field in fields(kind)}:
        raise ValueError(f"not the fields of {kind.__name__}: {line[:200]}")
    report: Report = kind(**{name: _frozen(value) for name, value in document.items()})
    return report


def say(report: Report) -> None:
    """Write the report to stdout immediately. BrokenPipeError means that the parent is gone."""
    sys.stdout.write(encode(report) + "\n")
    sys.stdout.flush()


def as_runs(numbers: Iterable[int]) -> tuple[tuple[int, int, int], ...]:
    """Fold numbers into runs of (start, stop, step), in order, as for `range`.

    A partition has every n-th record, so a whole batch is usually one run.
    """
    runs: list[tuple[int, int, int]] = []
    for number in numbers:
        if runs:
            start, stop, step = runs[-1]
            last = stop - step
            if start == last and number > start:
                runs[-1] = (start, 2 * number - start, number - start)
                continue
            if number == stop and start != last:
                runs[-1] = (start, stop + step, step)
                continue
        runs.append((number, number + 1, 1))
    return tuple(runs)


def _frozen(value: object) -> object:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
