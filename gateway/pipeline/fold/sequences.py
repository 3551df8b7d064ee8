"""Checks the numbers of lines: which are missing, which have two versions, and whether each log has
an end."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias
from zlib import crc32

from gateway.pipeline.fold.lines import Line, LineEnvelope
from gateway.pipeline.fold.order import OutOfOrderError
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
        self.rows: list[UnreadRow] = []
        """What makes the lines of the group unreliable."""

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
            if line.after is not None and line.after > its.named:
                its.named = line.after
            return "next"
        if its is None:
            has_earlier = any(gateway_id == line.gateway_id for gateway_id, _ in self._sequences)
            begins_again = is_of_group and number == 1 and has_earlier
            is_stated = line.event == "group_loaded"  # with all that came before
            its = self._sequences[key] = _Sequence(number - is_of_group if is_stated else 0)
        elif is_of_group and number == its.reached:
            if its.content != line.content:
                problem = f"{line.event} has two versions"
                self.add("conflict", problem, line.gateway_id, line.at_ms, (number, number))
                return "contradicts"
            return "repeated"
        first, last = its.reached + 1, number - is_of_group
        its.reached = max(its.reached, number)
        if is_of_group:
            its.content = line.content
        else:
            its.named = max(its.named, line.after or 0)
        if first <= last:
            self.add("missing", _MISSING, line.gateway_id, line.at_ms, (first, last))
            return "behind a hole"
        return "begins again" if begins_again else "next"

    def finish(self, at_ms: int) -> None:
        """Add what is missing at the end."""
        for (gateway_id, _began_ms), its in self._sequences.items():
            if its.named > its.reached:
                missing = its.reached + 1, its.named
                self.add("missing", _MISSING, gateway_id, at_ms, missing)

    def add(
        self,
        kind: UnreadKind,
        problem: str,
        gateway_id: str | None,
        at_ms: int,
        numbers: tuple[int | None, int | None] = (None, None),
    ) -> None:
        """Add a row. `numbers`: the first and the last one that it is about."""
        row = UnreadRow(kind=kind, problem=problem, gateway_id=gateway_id, at_ms=at_ms, **self._of)
        row.first, row.last = numbers
        self.rows.append(row)


_MISSING = "lines of the group's sequence are missing"

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
    is_whole: bool = False
    """Whether it stands for all numbers before it."""


@lru_cache(1 << 16)
def checksum_of(name: str) -> int:
    """A checksum of a name, which is 0 without any."""
    return crc32(name.encode("utf-8", "surrogatepass"))


def number_of(line: LineEnvelope, fields: Any) -> Number:
    """The number of a line. `fields`: those of a gateway's event."""
    if line.process_id is None:
        return Number(0, 0, OTHER, 0)
    about = _ABOUT.get(line.event, OTHER)
    group = checksum_of(line.group_id or "")
    if line.event == "shards_given_up" and fields is not None and fields.ends_run:
        about = ENDED
    number = Number(line.sequence, line.at_ms, about, line.content, group)
    if line.event == "gateway_started" and fields is not None and fields.previous_run is not None:
        return number._replace(previous_run=fields.previous_run)
    return number


_ABOUT = {
    **dict.fromkeys(("group_loaded", "hosting_started", "group_forwarded"), STATED),
    **dict.fromkeys(("offsets_committed", "offsets_fetched", "transaction_ended"), OF_GROUP),
    **dict.fromkeys(("partitions_stated", "partitions_assigned", "grant_ended"), OF_GROUP),
    "gateway_ended": ENDED,
}
NO_END = "its log has no end: the process runs yet, or was killed"
_RUN_MISSING = "the lines of the run before are missing"
_LINES_MISSING = "lines of the process are missing"
_TWO_VERSIONS = "a number of the process has two versions"


class RunsFold:
    """The runs and processes of one gateway."""

    def __init__(self, gateway_id: str) -> None:
        self._gateway_id = gateway_id
        self._processes: dict[RunKey, _ProcessNumbers] = {}

    def take(self, key: RunKey, numbers: Sequence[tuple[Any, ...]]) -> None:
        """Take further numbers of a process, in their order: those of `Number`. Raises
        OutOfOrderError if one belongs before others that have been taken."""
        if not numbers:
            return
        process = self._processes.get(key)
        if process is None:
            process = self._processes[key] = _ProcessNumbers(key, Number(*numbers[0]))
        if process.is_followed_by(numbers):
            process.skip_to(Number(*numbers[-1]))
        else:
            for number in numbers:
                process.take(Number(*number))

    def finish(self) -> Iterator[UnreadRow]:
        """What is missing, as if nothing followed."""
        earlier: set[int] = set()
        for run, keys in groupby(sorted(self._processes), key=attrgetter("run")):
            processes = [self._processes[key] for key in keys if key.process_id]
            for process in processes:
                yield from process.finish(earlier)
            if not processes:
                yield _run_row("no end", RunKey(self._gateway_id, run, ""), NO_END)
            earlier.add(run)


class _ProcessNumbers:
    """The numbers of one process. Takes them in their order."""

    def __init__(self, key: RunKey, first: Number) -> None:
        self._key = key
        self._first = first
        self._latest = first._replace(sequence=first.sequence - 1)
        self._has_beginning = first.sequence <= 1 or first.is_whole
        self._rows: list[UnreadRow] = []
        self._starts: list[Number] = []
        """The numbers that name the run before."""
        self._stated: set[int] = set()
        """The groups that are stated since the first line. A process whose first lines are gone, as
        with their file, states each group in its next one."""
        self._unstated_ms: int | None = None
        """When one was not."""
        self._has_versions = False
        """Whether the latest number has several contents."""

    def is_followed_by(self, numbers: Sequence[tuple[Any, ...]]) -> bool:
        """Whether these are the next numbers, and none of them has to be examined."""
        first, last = numbers[0][0], numbers[-1][0]
        is_next = self._has_beginning and first == self._latest.sequence + 1
        is_gapless = len(numbers) == last - first + 1 == len({number[0] for number in numbers})
        return is_next and is_gapless and all(number[5] == -1 for number in numbers)

    def skip_to(self, number: Number) -> None:
        """Take this number, and those before it that need not be examined."""
        self._latest, self._has_versions = number, False

    def take(self, number: Number) -> None:
        """Take the next number. Raises OutOfOrderError."""
        latest, sequence = self._latest, number.sequence
        if number < latest:
            raise OutOfOrderError
        if sequence == latest.sequence:
            if number.content != latest.content and not self._has_versions:
                self._has_versions = True
                its = {"first": sequence, "last": sequence, "at_ms": latest.at_ms}
                self._rows.append(self._row("conflict", _TWO_VERSIONS, **its))
            return
        if sequence > latest.sequence + 1:
            its = {"first": latest.sequence + 1, "last": sequence - 1, "at_ms": latest.at_ms}
            self._rows.append(self._row("missing", _LINES_MISSING, **its))
        self._latest, self._has_versions = number, False
        if number.previous_run != -1:
            self._starts.append(number)
        if self._has_beginning or self._unstated_ms is not None:
            return
        if number.about == STATED:
            self._stated.add(number.group)
        elif number.about == OF_GROUP and number.group not in self._stated:
            self._unstated_ms = number.at_ms

    def finish(self, earlier: Collection[int]) -> Iterator[UnreadRow]:
        """The rows about the process. `earlier`: the runs of the gateway that came before."""
        yield from self._rows
        first, latest = self._first, self._latest
        if not self._has_beginning:
            missed_ms = first.at_ms if earlier else self._unstated_ms
            if missed_ms is None and not self._stated:
                missed_ms = latest.at_ms
            if missed_ms is not None:
                its = {"first": 1, "last": first.sequence - 1, "at_ms": missed_ms}
                yield self._row("missing", _LINES_MISSING, **its)
        for start in self._starts:
            if earlier and start.previous_run not in earlier:
                yield self._row("missing", _RUN_MISSING, at_ms=start.at_ms)
        if latest.about != ENDED:
            yield self._row("no end", NO_END, first=latest.sequence, at_ms=latest.at_ms)

    def _row(self, kind: UnreadKind, problem: str, **place: Any) -> UnreadRow:
        return _run_row(kind, self._key, problem, **place)


def _run_row(kind: UnreadKind, key: RunKey, problem: str, **place: Any) -> UnreadRow:
    its: dict[str, Any] = {"gateway_id": key.gateway_id, "process_id": key.process_id or None}
    return UnreadRow(kind=kind, cluster_id="", problem=problem, **its, **place)
