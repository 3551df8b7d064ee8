"""The verdict has each planted fault, with everything needed to investigate it."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession

from gateway.events.member_events import PartitionsReleased
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.changes import changes
from gateway.pipeline.tables.contradictions import ContradictionRow, contradictions
from gateway.pipeline.tables.lost_commits import LostCommitRow, lost_commits
from gateway.pipeline.tables.offsets import OffsetRow, offsets
from gateway.pipeline.tables.ownership import OwnershipRow, ownership
from gateway.pipeline.tables.rejected import RejectedRow, rejected
from gateway.pipeline.tables.sequences import SequenceRow, sequences
from gateway.pipeline.verdict import EVIDENCE_MAX, judge
from tests.support.offset_tales import OffsetTale
from tests.support.scribe import START_MS, Scribe, histories, parsed

EMPTY: Mapping[str, type[BaseModel]] = {
    "ownership": OwnershipRow,
    "offsets": OffsetRow,
    "lost_commits": LostCommitRow,
    "sequences": SequenceRow,
    "contradictions": ContradictionRow,
    "rejected": RejectedRow,
}


def tables(spark: SparkSession, **rows: list[dict[str, Any]]) -> dict[str, DataFrame]:
    """All tables, with only these rows."""
    return {
        name: spark.createDataFrame(rows.get(name, []), struct_of(row))
        for name, row in EMPTY.items()
    }


def test_every_planted_fault_is_reported(spark: SparkSession) -> None:
    """Two owners, an offset that went back, and lost lines: member, place, time and line are
    given."""
    it = OffsetTale("orders\x1b")
    it.gets(1, "a")
    it.fetches(2, "a", 100)
    it.commits(3, "a", 110)
    it.gives(4, "a")
    it.gets(4, "b")
    it.commits(6, "b", 120, 70, 125, since_s=5)
    it.scribe.lose(3)
    it.gives(7, "b")
    it.gets(8, "d")
    it.fetches(9, "d", 40)
    twice = {
        **dict.fromkeys(OwnershipRow.model_fields),
        "group_id": "orders\x1b",
        "topic": "t",
        "partition": 0,
        "kind": "overlap",
        "basis": "stated",
        "member_id": "b",
        "other_member_id": "a",
        "from_ms": START_MS + 2000,
    }
    lines = [*it.scribe.lines, it.scribe.lines[-3].replace('"b"', '"c\\u001b"')]
    verdict = judge(
        ownership=tables(spark, ownership=[twice])["ownership"],
        offsets=offsets(histories(spark, *lines)),
        lost_commits=lost_commits(histories(spark, *lines)),
        sequences=sequences(parsed(spark, *lines)),
        contradictions=contradictions(parsed(spark, *lines)),
        rejected=tables(spark)["rejected"],
        has_groups=True,
    )
    assert not verdict.is_safe
    where = 'group "orders\\u001b"'
    assert verdict.lines == (
        "1 partitions owned twice:",
        f"  {where}: t-0 had b and a as stated, 2027-01-15 08:00:02.000Z to now",
        "1 offsets gone back:",
        f"  {where}: t-0 at 70 committed by b (owner b, offset before 110, owner's start 110),"
        " 2027-01-15 08:00:05.000Z to 2027-01-15 08:00:06.000Z, event 3 of process p at gateway g",
        "1 commits lost:",
        f"  {where}: t-0: 125 was committed 2027-01-15 08:00:06.000Z, its owner d was told 40,"
        " 2027-01-15 08:00:09.000Z, event 4 of process p at gateway g",
        "1 gaps in sequences:",
        f"  {where} at gateway g lacks events 4 to 6,"
        " between 2027-01-15 08:00:04.000Z and 2027-01-15 08:00:07.000Z",
        "1 events with two versions:",
        f"  {where} at gateway g has event 7 as partitions_released and, differently,"
        " partitions_released, 2027-01-15 08:00:07.000Z",
        "no events that could not be read",
    )


def test_owners_from_before_the_first_event_are_reported(spark: SparkSession) -> None:
    """Two members released a partition that they had owned before the first event, so both had
    owned it."""
    scribe = Scribe()
    scribe.lose(4)
    for at_s, member_id in ((1, "a"), (3, "b")):
        given = PartitionsReleased(member_id=member_id, member_epoch=1, partitions={"t": (0,)})
        scribe.tell(at_s, given)
    story = histories(spark, *scribe.lines)
    found = {**tables(spark), "ownership": ownership(story, changes(story))}
    verdict = judge(**found, has_groups=True)
    assert verdict.lines[:2] == (
        "1 partitions owned twice:",
        "  group orders: t-0 had b and a as granted,"
        " before the first event to 2027-01-15 08:00:01.000Z",
    )


def test_harmless_rows_are_not_reported(spark: SparkSession) -> None:
    """Owners, gaps, seeks and resets are harmless."""
    owner = {
        **dict.fromkeys(OwnershipRow.model_fields),
        "group_id": "orders",
        "kind": "owner",
        "from_ms": 1,
    }
    commit = {**dict.fromkeys(OffsetRow.model_fields), "group_id": "orders", "from_ms": 1}
    verdict = judge(
        **tables(
            spark,
            ownership=[owner, {**owner, "kind": "gap"}],
            offsets=[{**commit, "finding": finding} for finding in (None, "seek", "reset")],
        ),
        has_groups=True,
    )
    assert verdict.is_safe
    assert verdict.lines == (
        "no partitions owned twice",
        "no offsets gone back",
        "no commits lost",
        "no gaps in sequences",
        "no events with two versions",
        "no events that could not be read",
    )


def test_unreadable_events_are_not_called_safe(spark: SparkSession) -> None:
    """An unreadable event of a group counts as missing, wherever it is in its sequence. Unknown
    events and garbage are only counted."""
    it = OffsetTale("orders")
    it.gets(1, "a")
    lines = it.scribe.lines
    newer = lines[-1].replace('"schema_version":1', '"schema_version":2')
    other = lines[-1].replace('"partitions_assigned"', '"partitions_blessed"')
    none = tables(spark)
    for line, faults in ((newer, 1), (other, 0), (lines[-1][:-9], 0), ("garbage", 0)):
        bad = rejected(parsed(spark, *lines[:-1], line))
        verdict = judge(**{**none, "rejected": bad}, has_groups=True)
        assert [fault.count for fault in verdict.faults] == [0, 0, 0, 0, 0, faults]
        assert verdict.is_safe == (not faults)
        assert verdict.lines[-1] == "1 lines could not be read: tables/rejected"
        if faults:
            assert verdict.lines[-2] == (
                f"  group orders: file line {len(lines)}:"
                " partitions_assigned of schema version 2 is not known"
            )


def test_an_empty_input_is_not_called_safe(spark: SparkSession) -> None:
    """A user may have named the wrong folder."""
    verdict = judge(**tables(spark), has_groups=False)
    assert not verdict.is_safe
    assert verdict.lines == ("nothing to judge: the events mention no group",)


@pytest.mark.parametrize("more", [0, 5])
def test_the_first_faults_are_listed_and_the_rest_counted(spark: SparkSession, more: int) -> None:
    """At most EVIDENCE_MAX rows of a kind are fetched."""
    gaps = [
        {
            **dict.fromkeys(SequenceRow.model_fields),
            "gateway_id": "g",
            "process_id": f"p{number}",
            "missing_from": 2,
            "missing_to": 2,
            "from_ms": START_MS + number,
            "to_ms": START_MS + number,
        }
        for number in reversed(range(EVIDENCE_MAX + more))
    ]
    verdict = judge(**tables(spark, sequences=gaps), has_groups=True)
    assert not verdict.is_safe
    (missing,) = (fault for fault in verdict.faults if fault.name == "gaps in sequences")
    assert missing.count == EVIDENCE_MAX + more
    assert len(missing.evidence) == EVIDENCE_MAX
    assert missing.evidence[0].startswith("process p0 at gateway g lacks events 2 to 2, between")
    assert ("  and 5 more" in verdict.lines) == bool(more)
