"""The verdict: was it safe?

SAFE: hand-overs were compared, all lines are there, and no fault was found. NOT SAFE: a fault is
certain. NOT PROVEN: a fault is possible, lines are missing or could not be read, or nothing could
be compared. Where they mean the same, the names of faults are Jepsen's: lost, skipped.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from gateway.pipeline.fold.rows import FindingRow, UnreadRow
from gateway.pipeline.report.summary import Sample, Summary
from gateway.readable import count_of, format_timestamp, show_value

Word: TypeAlias = Literal["SAFE", "NOT SAFE", "NOT PROVEN"]

FAULTS = {
    "owned_twice": ("partition owned twice", "partitions owned twice"),
    "commit_lost": ("lost commit", "lost commits"),
    "commit_went_back": ("commit that went back", "commits that went back"),
    "claim_without_grant": ("claim without a grant", "claims without a grant"),
    "records_skipped": ("start that may skip records", "starts that may skip records"),
}
"""What one and several findings of a kind are called, gravest first."""
UNREAD = {
    "line": ("line could not be read", "lines could not be read"),
    "missing": ("gap in a sequence of lines", "gaps in sequences of lines"),
    "conflict": ("contradiction between lines", "contradictions between lines"),
    "no end": ("log has no end", "logs have no end"),
    "no cluster": ("group of an unknown cluster", "groups of unknown clusters"),
    "version 1": ("group has lines of version 1", "groups have lines of version 1"),
}
_WHERE_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceList:
    """What was found of one kind, and the first of it."""

    title: str
    table: str
    """The table with all rows."""
    lines: tuple[str, ...]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyVerdict:
    """The verdict with its coverage and its evidence."""

    word: Word
    reason: str
    """What and where, or why; empty if it is safe."""
    coverage: str
    evidence: tuple[EvidenceList, ...]

    @property
    def is_safe(self) -> bool:
        """Whether it is SAFE."""
        return self.word == "SAFE"

    @property
    def headline(self) -> str:
        """The first line."""
        return f"{self.word}: {self.reason}" if self.reason else self.word

    @property
    def lines(self) -> tuple[str, ...]:
        """The verdict for people."""
        lines = [self.headline, self.coverage]
        for entry in self.evidence:
            lines += [f"{entry.title}:", *(f"  {line}" for line in entry.lines)]
            lines += [f"  and {entry.left_out:,} more"] if entry.left_out else []
        return tuple(lines)


def judge(summary: Summary) -> SafetyVerdict:
    """Judge what was found."""
    faults = [
        f"{_name_evidence(kind, evidence)} ({_where(evidence)})"
        for kind, evidence in _in_order(summary.findings)
    ]
    doubts = list(_doubts(summary))
    word: Word = "NOT SAFE" if faults else "NOT PROVEN" if doubts else "SAFE"
    return SafetyVerdict(
        word=word,
        reason="; ".join(faults or doubts),
        coverage=coverage(summary),
        evidence=tuple(_evidence(summary)),
    )


def coverage(summary: Summary) -> str:
    """How much was compared."""
    handovers, compared = summary.sums["handovers"], summary.sums["compared"]
    parts = [f"{compared:,} of {count_of(handovers, 'hand-over')} compared"]
    if rest := handovers - compared:
        reasons = [f"{count:,} {reason}" for reason, count in sorted(summary.not_compared.items())]
        parts.append(f"{rest:,} not ({', '.join(reasons)})")
    parts.append(count_of(summary.sums["first_grants"], "first grant"))
    parts.append(count_of(summary.groups, "group"))
    if (until_ms := _no_fault_until_ms(summary)) is not None:
        parts.append(f"no fault up to {format_timestamp(until_ms)}")
    return "; ".join(parts)


def _no_fault_until_ms(summary: Summary) -> int | None:
    """How far the lines go that leave nothing open but what follows; null if something else is
    open."""
    is_open = summary.findings or summary.doubts or summary.uncompared.count
    if is_open or not summary.sums["compared"] or summary.unread.keys() != {"no end"}:
        return None
    rows = summary.unread["no end"].rows
    times = [row.at_ms for row in rows if row.at_ms is not None]
    return min(times) if len(times) == len(rows) else None


def _doubts(summary: Summary) -> Iterator[str]:
    """Why it is not proven."""
    if not summary.groups:
        yield "no line is about a group"
    for kind, evidence in _in_order(summary.doubts):
        name = _name_evidence(kind, evidence)
        yield f"perhaps {name} ({_where(evidence)})" if kind != "records_skipped" else name
    for kind, names in UNREAD.items():
        if (unread := summary.unread.get(kind)) is not None:
            yield count_of(unread.count, *names)
    if summary.groups and not summary.sums["compared"]:
        yield "no hand-over could be compared"
    elif summary.uncompared.count:
        group_id, reasons = summary.uncompared.rows[0]
        more = summary.uncompared.count - 1
        others = f" and of {count_of(more, 'more group')}" if more else ""
        yield f"no hand-over of group {show_value(group_id)}{others} could be compared ({reasons})"


def _in_order(
    evidence: Mapping[str, Sample[FindingRow]],
) -> Iterator[tuple[str, Sample[FindingRow]]]:
    yield from ((kind, evidence[kind]) for kind in FAULTS if kind in evidence)


def _name_evidence(kind: str, evidence: Sample[FindingRow]) -> str:
    return count_of(evidence.count, *FAULTS[kind])


def _where(evidence: Sample[FindingRow]) -> str:
    places = list(dict.fromkeys(_partition(row) for row in evidence.rows))
    text = ", ".join(places[:_WHERE_MAX])
    return f"{text}, ..." if len(places) > _WHERE_MAX else text


def _partition(row: FindingRow) -> str:
    return f"group {show_value(row.group_id)}: {show_value(row.topic)}-{row.partition}"


def _evidence(summary: Summary) -> Iterator[EvidenceList]:
    for doubt, samples in (("", summary.findings), ("perhaps ", summary.doubts)):
        for kind, evidence in _in_order(samples):
            title = f"{doubt}{_name_evidence(kind, evidence)}"
            yield _list_evidence(title, "findings", evidence, map(sentence, evidence.rows))
    for kind, names in UNREAD.items():
        if (unread := summary.unread.get(kind)) is not None:
            title = count_of(unread.count, *names)
            yield _list_evidence(title, "unread", unread, map(unread_sentence, unread.rows))


def _list_evidence(
    title: str, table: str, evidence: Sample[Any], lines: Iterable[str]
) -> EvidenceList:
    left_out = evidence.count - len(evidence.rows)
    return EvidenceList(title=title, table=table, lines=tuple(lines), left_out=left_out)


def sentence(row: FindingRow) -> str:
    """A finding for people."""
    member = show_value(row.member_id) if row.member_id else "a client outside the group"
    other = show_value(row.other_member_id) if row.other_member_id else "no member"
    offset = "no offset" if row.observed is None else f"{row.observed:,}"
    expected = "none" if row.expected is None else f"{row.expected:,}"
    match row.kind:
        case "owned_twice":
            text = f"{member} was granted it while {other} had it"
        case "commit_lost":
            by = f" by {other}" if row.other_member_id else ""
            text = f"{expected} was committed{by}, {member} fetched {offset}"
        case "commit_went_back":
            text = f"{member} committed {offset} after {expected}"
            if row.other_member_id:
                text += f", last stored by {other}"
        case "claim_without_grant":
            text = f"{member} claimed it, but it was granted to {other}"
        case "records_skipped":
            text = f"{expected} was committed, {member} fetched {offset}"
    return f"{_partition(row)}: {text}, {format_timestamp(row.at_ms)}, {_line(row)}"


def _line(row: FindingRow) -> str:
    """The lines that are the evidence."""
    lines = _one_line(row.gateway_id, row.process_id, row.sequence)
    if row.other_gateway_id is None or row.other_sequence is None:
        return lines
    return f"{lines}; {_one_line(row.other_gateway_id, row.other_process_id, row.other_sequence)}"


def _one_line(gateway_id: str, process_id: str | None, sequence: int) -> str:
    whose = "the group" if process_id is None else f"process {show_value(process_id)}"
    return f"line {sequence} of {whose} at gateway {show_value(gateway_id)}"


def unread_sentence(row: UnreadRow) -> str:
    """What could not be read, for people."""
    parts = []
    if row.group_id is not None:
        parts.append(f"group {show_value(row.group_id)}")
    if row.file is not None:
        parts.append(
            show_value(row.file) if row.place is None else f"{show_value(row.file)} {row.place}"
        )
    elif row.gateway_id is not None:
        whose = f"process {show_value(row.process_id)} at " if row.process_id is not None else ""
        parts.append(f"{whose}gateway {show_value(row.gateway_id)}")
    problem = row.problem
    if row.kind == "missing" and row.first is not None:
        problem += f": {row.first} to {row.last}"
    at = "" if row.at_ms is None else f", {format_timestamp(row.at_ms)}"
    return f"{': '.join([*parts, problem])}{at}"
