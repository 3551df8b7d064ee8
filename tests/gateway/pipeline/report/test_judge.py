"""The verdict has each planted fault, with everything needed to investigate it."""

import pytest

from gateway.events.member_events import GrantEnded
from gateway.pipeline.fold.tables import Tables
from gateway.pipeline.report.digest import Digest
from gateway.pipeline.report.verdict import EVIDENCE_MAX, Verdict, judge
from tests.support.event_writer import START_MS, EventWriter
from tests.support.folded_lines import folds
from tests.support.offset_history import OffsetHistory
from tests.support.report_tables import tables


def judged(*tables: Tables, has_groups: bool = True) -> Verdict:
    """The verdict on these tables of one group."""
    digest = Digest(top=1)
    for each in tables:
        digest.add(("", "g") if has_groups else None, each)
    digest.cut()
    digest.groups = int(has_groups)
    return judge(digest)


def verdict_on(*lines: str) -> Verdict:
    """The verdict on these lines."""
    return judged(*(tables for _key, tables in folds(*lines)))


def test_every_planted_fault_is_reported() -> None:
    """Two owners, an offset that went back, and lost lines: member, place, time and line are
    given."""
    it = OffsetHistory("orders\x1b")
    it.gets(1, "a")
    it.fetches(2, "a", 100)
    it.commits(3, "a", 110)
    it.gives(4, "a")
    it.gets(4, "b")
    it.commits(6, "b", 120, 70, 125, since_s=5)
    it.writer.lose(3)
    it.gives(7, "b")
    it.gets(8, "d")
    it.fetches(9, "d", 40)
    twice = {
        "group_id": "orders\x1b",
        "kind": "overlap",
        "basis": "stated",
        "member_id": "b",
        "other_member_id": "a",
        "from_ms": START_MS + 2000,
        "to_ms": None,
    }
    lines = [*it.writer.lines, it.writer.lines[-3].replace('"b"', '"c\\u001b"')]
    found = [each for _key, each in folds(*lines)]
    for each in found:
        each.ownership = []
    verdict = judged(*found, tables(ownership=[twice]))
    assert not verdict.is_safe
    where = 'group "orders\\u001b"'
    assert verdict.lines == (
        "1 partition owned twice:",
        f"  {where}: t-0 had b and a as stated, 2023-11-15 08:00:02.000Z to now",
        "no partitions perhaps owned twice",
        "1 non-monotonic commit:",
        f"  {where}: t-0 at 70 committed by b (owner b, offset before 110, owner's start 110),"
        " 2023-11-15 08:00:05.000Z to 2023-11-15 08:00:06.000Z, event 3 of process p at gateway g",
        "1 lost commit:",
        f"  {where}: t-0: 125 was committed 2023-11-15 08:00:06.000Z, its owner d was told 40,"
        " 2023-11-15 08:00:09.000Z, event 4 of process p at gateway g",
        "no commits perhaps non-monotonic",
        "no commits perhaps lost",
        "no starts that may skip records",
        "no claims without a grant",
        "1 gap in a sequence:",
        f"  {where} at gateway g lacks events 4 to 6,"
        " between 2023-11-15 08:00:04.000Z and 2023-11-15 08:00:07.000Z",
        "1 event with two versions:",
        f"  {where} at gateway g has event 7 as grant_ended and, differently,"
        " grant_ended, 2023-11-15 08:00:07.000Z",
        "no events that could not be read",
    )


def test_owners_from_before_the_first_event_are_reported() -> None:
    """Two members released a partition that they had owned before the first event, so both had
    owned it."""
    writer = EventWriter()
    writer.lose(4)
    for at_s, member_id in ((1, "a"), (3, "b")):
        given = GrantEnded(
            cause="revoked", member_id=member_id, member_epoch=1, partitions={"t": (0,)}
        )
        writer.tell(at_s, given)
    verdict = verdict_on(*writer.lines)
    assert verdict.lines[:2] == (
        "1 partition owned twice:",
        "  group orders: t-0 had b and a as granted,"
        " before the first event to 2023-11-15 08:00:01.000Z",
    )


def test_harmless_rows_are_not_reported() -> None:
    """Owners, gaps, seeks and resets are harmless."""
    owner = {"kind": "owner", "from_ms": 1}
    commits = [{"finding": finding, "from_ms": 1} for finding in (None, "seek", "reset")]
    verdict = judged(tables(ownership=[owner, {**owner, "kind": "gap"}], offsets=commits))
    assert verdict.is_safe
    assert verdict.lines == (
        "no partitions owned twice",
        "no partitions perhaps owned twice",
        "no non-monotonic commits",
        "no lost commits",
        "no commits perhaps non-monotonic",
        "no commits perhaps lost",
        "no starts that may skip records",
        "no claims without a grant",
        "no gaps in sequences",
        "no events with two versions",
        "no events that could not be read",
    )


def test_unreadable_events_are_not_called_safe() -> None:
    """An unreadable event of a group counts as missing, wherever it is in its sequence. Unknown
    events and garbage are only counted."""
    it = OffsetHistory("orders")
    it.gets(1, "a")
    lines = it.writer.lines
    newer = lines[-1].replace('"schema_version":1', '"schema_version":2')
    other = lines[-1].replace('"partitions_assigned"', '"partitions_blessed"')
    for line, faults in ((newer, 1), (other, 0), (lines[-1][:-9], 0), ("garbage", 0)):
        verdict = verdict_on(*lines[:-1], line)
        assert [fault.count for fault in verdict.faults] == [*[0] * 10, faults]
        assert verdict.is_safe == (not faults)
        assert verdict.lines[-1] == "1 line could not be read"
        if faults:
            assert verdict.lines[-2] == (
                f"  group orders: file line {len(lines)}:"
                " partitions_assigned of schema version 2 is not known"
            )


def test_an_empty_input_is_not_called_safe() -> None:
    """A user may have named the wrong folder."""
    verdict = judged(has_groups=False)
    assert not verdict.is_safe
    assert verdict.lines == ("nothing to judge: the events mention no group",)


@pytest.mark.parametrize("more", [0, 5])
def test_the_first_faults_are_listed_and_the_rest_counted(more: int) -> None:
    """At most EVIDENCE_MAX rows of a kind are listed."""
    gaps = [
        {
            "gateway_id": "g",
            "process_id": f"p{number}",
            "missing_from": 2,
            "missing_to": 2,
            "from_ms": START_MS + number,
            "to_ms": START_MS + number,
        }
        for number in reversed(range(EVIDENCE_MAX + more))
    ]
    verdict = judged(tables(sequences=gaps))
    assert not verdict.is_safe
    (missing,) = (fault for fault in verdict.faults if fault.name == "gaps in sequences")
    assert missing.count == EVIDENCE_MAX + more
    assert len(missing.evidence) == EVIDENCE_MAX
    assert missing.evidence[0].startswith("process p0 at gateway g lacks events 2 to 2, between")
    assert ("  and 5 more" in verdict.lines) == bool(more)
