"""Checks the numbers of lines: which are missing, which have two versions, and whether each log has
an end."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias
from zlib import crc32

from gateway.events.gateway_events import GatewayStarted, ShardsGivenUp
from gateway.pipeline.fold.lines import Line
from gateway.pipeline.fold.rows import UnreadKind, UnreadRow


@dataclass(slots=True)
class _Sequence:
    """One sequence of the group in one log."""

    reached: int = 0
    """The latest number."""
    content: int = 0
    named: int = 0
    """The highest number that a line of a process names."""


Succession: TypeAlias = Literal["next", "repeated", "contradicts", "behind a hole", "begins again"]
"""What a line is to those before it in its log. One that contradicts has the number of another one,
of which one was never sent; one that begins again begins another sequence."""


class GroupSequences:
    """The sequences of one group. Takes the lines in their order."""

    def __init__(self, cluster_id: str, group_id: str) -> None:
        self._of: dict[str, Any] = {"cluster_id": cluster_id, "group_id": group_id}
        self._sequences: dict[tuple[str, int | None], _Sequence] = {}
        self._before: tuple[str | None, str, int, int] | None = None
        self._rows: list[UnreadRow] = []

    def take(self, line: Line, number: int) -> Succession:
        """Take a line, which has or follows this number."""
        is_of_group = line.process_id is None
        if not is_of_group:
            same = line.process_id, line.gateway_id, line.sequence, line.content
            if same == self._before:
                return "repeated"
            self._before = same
            if not number:
                return "next"
        key = line.gateway_id, line.began_ms
        its, begins_again = self._sequences.get(key), False
        if its is not None and not is_of_group and number <= its.reached:
            its.named = max(its.named, line.after or 0)
            return "next"
        if its is None:
            has_earlier = any(gateway_id == line.gateway_id for gateway_id, _ in self._sequences)
            begins_again = is_of_group and number == 1 and has_earlier
            is_stated = line.event == "group_loaded"  # with all that came before
            its = self._sequences[key] = _Sequence(number - is_of_group if is_stated else 0)
        elif is_of_group and number == its.reached:
            if its.content != line.content:
                problem = f"{line.event} has two versions"
                self._add("conflict", problem, line.gateway_id, line.at_ms, number, number)
                return "contradicts"
            return "repeated"
        first, last = its.reached + 1, number - is_of_group
        its.reached = max(its.reached, number)
        if is_of_group:
            its.content = line.content
        else:
            its.named = max(its.named, line.after or 0)
        if first <= last:
            self._add("missing", _MISSING, line.gateway_id, line.at_ms, first, last)
            return "behind a hole"
        return "begins again" if begins_again else "next"

    def miss_end(self, line: Line) -> None:
        """The lines before this one, which begins a sequence, do not end the earlier one."""
        self._add("missing", _END_MISSING, line.gateway_id, line.at_ms)

    def add_shared_run(self, line: Line) -> None:
        """A process begins with the group before an earlier one of the same log has ended."""
        self._add("conflict", _SHARED, line.gateway_id, line.at_ms)

    def finish(self, at_ms: int) -> list[UnreadRow]:
        """The rows, with what is missing at the end."""
        for (gateway_id, _began_ms), its in self._sequences.items():
            if its.named > its.reached:
                self._add("missing", _MISSING, gateway_id, at_ms, its.reached + 1, its.named)
        return self._rows

    def version_1_row(self, at_ms: int) -> UnreadRow:
        """The row of a group with lines of version 1."""
        problem = "lines of version 1 do not state what ended a grant"
        return UnreadRow(kind="version 1", **self._of, problem=problem, at_ms=at_ms)

    def _add(
        self, kind: UnreadKind, problem: str, gateway_id: str, at_ms: int, *numbers: int
    ) -> None:
        """`numbers`: the first and the last one that it is about, or none."""
        row = UnreadRow(kind=kind, problem=problem, gateway_id=gateway_id, at_ms=at_ms, **self._of)
        row.first, row.last = numbers or (None, None)
        self._rows.append(row)


_MISSING = "lines of the group's sequence are missing"
_SHARED = "two processes with one state log have the group, or their clocks differ"
_END_MISSING = "the end of the group's earlier sequence is missing"

OTHER, OF_GROUP, STATED, ENDED = range(4)
"""What the number of a process is about. OF_GROUP: offsets or partitions of a group. STATED: what a
group has, or that the cluster has it."""


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
    group: int = 0
    """A checksum of the group's name."""
    previous_run: int = -1
    """The run before, as the start of the process names it; -1 if it names none."""
    started_ms: int = 0
    """When the process started, if the start names a run before."""
    is_whole: bool = False
    """Whether it stands for all numbers before it."""


def run_of(line: Line) -> RunKey:
    """The run of a line."""
    return RunKey(line.gateway_id, line.run, line.process_id or "")


def number_of(line: Line) -> Number:
    """The number of a line."""
    if line.process_id is None:
        return Number(0, 0, OTHER, 0)
    about = _ABOUT.get(line.event, OTHER)
    group = crc32(line.group_id.encode("utf-8", "surrogatepass")) if line.group_id else 0
    if type(line.fields) is ShardsGivenUp and line.fields.ends_run:
        about = ENDED
    number = Number(line.sequence, line.at_ms, about, line.content, group)
    if type(line.fields) is GatewayStarted and line.fields.previous_run is not None:
        return number._replace(previous_run=line.fields.previous_run, started_ms=line.at_ms)
    return number


_ABOUT = {
    **dict.fromkeys(("group_loaded", "hosting_started", "group_forwarded"), STATED),
    **dict.fromkeys(("offsets_committed", "offsets_fetched", "transaction_ended"), OF_GROUP),
    **dict.fromkeys(("partitions_stated", "partitions_assigned", "grant_ended"), OF_GROUP),
    "gateway_ended": ENDED,
}
NO_END = "its log has no end: the process runs yet, or was killed"
_RUN_MISSING = "the lines of the run before are missing"
_PROCESS_MISSING = "lines of the process are missing"


def fold_runs(numbers: Iterable[tuple[RunKey, Iterable[Number]]]) -> Iterator[UnreadRow]:
    """What is missing of gateways, whose runs and processes come in order, and their numbers
    too."""
    for _gateway_id, of_gateway in groupby(numbers, key=lambda item: item[0].gateway_id):
        runs: set[int] = set()
        for run, processes in groupby(of_gateway, key=lambda item: item[0].run):
            yield from _fold_run(processes, runs)
            runs.add(run)


def _fold_run(
    processes: Iterable[tuple[RunKey, Iterable[Number]]], earlier: Collection[int]
) -> Iterator[UnreadRow]:
    """`earlier`: the runs of the gateway that came before."""
    has_process = False
    for key, numbers in processes:
        if key.process_id:
            has_process = True
            yield from _ProcessNumbers(key, earlier).fold(numbers)
    if not has_process:
        yield _run_row("no end", key._replace(process_id=""), NO_END)


def whole_numbers(numbers: list[Number]) -> None:
    """Let one number of a process stand for all before it, as far as they are there, each with one
    content. The numbers are in order."""
    first, count = numbers[0], 0
    if not first.sequence:  # marks
        del numbers[1:]
    if first.sequence != 1 and not first.is_whole:
        return
    for sequence, of_number in groupby(numbers, key=attrgetter("sequence")):
        versions = list(of_number)
        is_next = not count or sequence == numbers[count - 1].sequence + 1
        if not is_next or len({version.content for version in versions}) > 1:
            break
        count += len(versions)
    if count:
        start = {"previous_run": first.previous_run, "started_ms": first.started_ms}
        numbers[:count] = [numbers[count - 1]._replace(is_whole=True, **start)]


class _ProcessNumbers:
    """The numbers of one process."""

    def __init__(self, key: RunKey, earlier: Collection[int]) -> None:
        self._key = key
        self._earlier = earlier
        self._stated: set[int] | None = None
        """The groups that are stated since the first line; null if they need not be. A process of
        which the first lines are gone, as with their file, states each group in its next one."""
        self._first = 0

    def fold(self, numbers: Iterable[Number]) -> Iterator[UnreadRow]:
        """The rows about the process."""
        reached, at_ms, last = 0, None, OTHER
        for sequence, of_number in groupby(numbers, key=attrgetter("sequence")):
            versions = list(of_number)
            number = versions[0]
            if len({version.content for version in versions}) > 1:
                problem = "a number of the process has two versions"
                place = {"first": sequence, "last": sequence, "at_ms": number.at_ms}
                yield _run_row("conflict", self._key, problem, **place)
            if sequence > reached + 1 and not number.is_whole:
                if reached or self._earlier:
                    yield self._miss(reached + 1, sequence - 1, at_ms or number.at_ms)
                else:
                    self._stated, self._first = set(), sequence
            yield from self._check_stated(number)
            if self._earlier and number.previous_run not in (-1, *self._earlier):
                yield _run_row("missing", self._key, _RUN_MISSING, at_ms=number.started_ms)
            reached, at_ms, last = sequence, number.at_ms, number.about
        if self._stated is not None and not self._stated:
            yield self._miss(1, self._first - 1, at_ms)
        if last != ENDED:
            yield _run_row("no end", self._key, NO_END, first=reached, at_ms=at_ms)

    def _check_stated(self, number: Number) -> Iterator[UnreadRow]:
        if self._stated is None:
            return
        if number.about == STATED:
            self._stated.add(number.group)
        elif number.about == OF_GROUP and number.group not in self._stated:
            self._stated = None
            yield self._miss(1, self._first - 1, number.at_ms)

    def _miss(self, first: int, last: int, at_ms: int | None) -> UnreadRow:
        place = {"first": first, "last": last, "at_ms": at_ms}
        return _run_row("missing", self._key, _PROCESS_MISSING, **place)


def _run_row(kind: UnreadKind, key: RunKey, problem: str, **place: Any) -> UnreadRow:
    return UnreadRow(
        kind=kind,
        cluster_id="",
        gateway_id=key.gateway_id,
        process_id=key.process_id or None,
        problem=problem,
        **place,
    )
