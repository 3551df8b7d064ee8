"""Checks the numbers of lines: which are missing, which have two versions, and whether each log has
an end."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from gateway.pipeline.fold.lines import Line
from gateway.pipeline.fold.order import key_of
from gateway.pipeline.fold.rows import UnreadKind, UnreadRow


@dataclass(slots=True)
class _Sequence:
    """One sequence of the group in one log."""

    reached: int | None = None
    """The latest number; null before the first line."""
    content: int = 0
    named: int = 0
    """The highest number that a line of a process names."""


class GroupSequences:
    """The sequences of one group. Takes the lines in their order."""

    def __init__(self, cluster_id: str, group_id: str) -> None:
        self._of: dict[str, Any] = {"cluster_id": cluster_id, "group_id": group_id}
        self._sequences: dict[tuple[str, int | None], _Sequence] = {}
        self._before: tuple[str | None, str, int, int] | None = None
        self._rows: list[UnreadRow] = []
        self.has_hole = False
        """Whether numbers are missing before the line that was taken last."""

    def take(self, line: Line) -> bool:
        """Take a line. Returns whether it says something new."""
        number = key_of(line)[1]
        if line.process_id is None:
            return self._take_number(line)
        same = line.process_id, line.gateway_id, line.sequence, line.content
        if same == self._before:
            return False
        self._before = same
        if not number:
            return True
        its = self._sequences.setdefault((line.gateway_id, line.began_ms), _Sequence())
        its.named = max(its.named, line.after or 0)
        if its.reached is None:
            if line.event != "group_loaded":
                self._miss(line, 1, number)
            its.reached = number
        elif number > its.reached:
            self._miss(line, its.reached + 1, number)
            its.reached = number
        return True

    def _take_number(self, line: Line) -> bool:
        its = self._sequences.setdefault((line.gateway_id, line.began_ms), _Sequence())
        number, reached = line.sequence, its.reached
        if reached is None:
            if number > 1 and line.event != "group_loaded":
                self._miss(line, 1, number - 1)
        elif number == reached:
            if its.content and its.content != line.content:
                problem = f"{line.event} has two versions"
                self._add("conflict", line.gateway_id, line.at_ms, number, number, problem)
                return False
            if its.content:
                return False
        elif number > reached + 1:
            self._miss(line, reached + 1, number - 1)
        its.reached, its.content = number, line.content
        return True

    def finish(self, at_ms: int) -> list[UnreadRow]:
        """The rows, with what is missing at the end."""
        for (gateway_id, _began_ms), its in self._sequences.items():
            if its.reached is not None and its.named > its.reached:
                self._add("missing", gateway_id, at_ms, its.reached + 1, its.named, _MISSING)
        return self._rows

    def version_1_row(self, at_ms: int) -> UnreadRow:
        """The row of a group with lines of version 1."""
        problem = "lines of version 1 do not state what ended a grant"
        return UnreadRow(kind="version 1", **self._of, problem=problem, at_ms=at_ms)

    def _miss(self, line: Line, first: int, last: int) -> None:
        self.has_hole = True
        self._add("missing", line.gateway_id, line.at_ms, first, last, _MISSING)

    def _add(  # noqa: PLR0917  (the columns)
        self, kind: UnreadKind, gateway_id: str, at_ms: int, first: int, last: int, problem: str
    ) -> None:
        self._rows.append(
            UnreadRow(
                kind=kind,
                **self._of,
                gateway_id=gateway_id,
                problem=problem,
                first=first,
                last=last,
                at_ms=at_ms,
            )
        )


_MISSING = "lines of the group's sequence are missing"

OTHER, ABOUT_GROUP, LOADED, ENDED = range(4)
"""What the number of a process is about."""


class RunKey(NamedTuple):
    """One process of a gateway. Its id is empty in marks of lines that only name the run."""

    gateway_id: str
    run: int
    process_id: str


class Number(NamedTuple):
    """A number that a line of a process has; 0 in a mark."""

    sequence: int
    at_ms: int
    about: int
    content: int


def run_of(line: Line) -> RunKey:
    """The run of a line."""
    return RunKey(line.gateway_id, line.run, line.process_id or "")


def number_of(line: Line) -> Number:
    """The number of a line."""
    if line.process_id is None:
        return Number(0, 0, OTHER, 0)
    about = ABOUT_GROUP if line.group_id is not None else OTHER
    about = _ABOUT.get(line.event, about)
    return Number(line.sequence, line.at_ms, about, line.content)


_ABOUT = {"group_loaded": LOADED, "gateway_ended": ENDED}


def fold_run(
    gateway_id: str, run: int, processes: Iterable[tuple[str, Iterable[Number]]]
) -> list[UnreadRow]:
    """What is missing of one run, whose processes come in order, and their numbers too."""
    rows: list[UnreadRow] = []
    has_process = False
    for process_id, numbers in processes:
        if process_id:
            has_process = True
            rows += _fold_process(RunKey(gateway_id, run, process_id), numbers)
    if not has_process:
        rows.append(_run_row("no end", RunKey(gateway_id, run, ""), NO_END))
    return rows


NO_END = "its log has no end: the process runs yet, or was killed"


def _fold_process(key: RunKey, numbers: Iterable[Number]) -> Iterator[UnreadRow]:
    reached, at_ms, last = 0, None, OTHER
    is_start_open = False
    for sequence, of_number in groupby(numbers, key=attrgetter("sequence")):
        versions = list(of_number)
        number = versions[0]
        if len({version.content for version in versions}) > 1:
            problem = "a number of the process has two versions"
            yield _run_row(
                "conflict", key, problem, first=sequence, last=sequence, at_ms=number.at_ms
            )
        if sequence > reached + 1:
            if reached == 0:
                is_start_open = True
            else:
                yield _miss(key, reached + 1, sequence - 1, at_ms)
        if is_start_open and number.about != OTHER:
            # A file begins with what each group has.
            is_start_open = False
            if number.about == ABOUT_GROUP:
                yield _miss(key, 1, sequence - 1, number.at_ms)
        reached, at_ms, last = sequence, number.at_ms, number.about
    if is_start_open:
        yield _miss(key, 1, reached, at_ms)
    if last != ENDED:
        yield _run_row("no end", key, NO_END, first=reached, at_ms=at_ms)


def _miss(key: RunKey, first: int, last: int, at_ms: int | None) -> UnreadRow:
    problem = "lines of the process are missing"
    return _run_row("missing", key, problem, first=first, last=last, at_ms=at_ms)


def _run_row(kind: UnreadKind, key: RunKey, problem: str, **place: Any) -> UnreadRow:
    return UnreadRow(
        kind=kind,
        cluster_id="",
        gateway_id=key.gateway_id,
        process_id=key.process_id or None,
        problem=problem,
        **place,
    )
