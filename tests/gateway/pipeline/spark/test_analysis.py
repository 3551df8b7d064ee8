"""A run makes its tables and its page from any files, and counts lines that are not events."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupConverted, GroupCreated, TopicsDeleted
from gateway.events.member_events import GrantEnded, PartitionsAssigned
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from gateway.pipeline.fold.lines import TEXT_MAX
from gateway.pipeline.report.digest import Digest, report
from gateway.pipeline.report.page import page
from tests.support.event_writer import START_MS, EventWriter
from tests.support.folded_lines import folds
from tests.support.group_events import UP, joins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST = (1 << 63) - 1
LAST_MOMENT_MS = 253_402_300_799_999
LONG = 20 << 20
HOSTILE = '"><script>alert(1)</script>\u202e\x00'
NAME = "x" * 16_000
"""Strings that a client may choose as names."""
ODD_NAME = "a b%20[1]{x}*?.jsonl"


def assigned(*numbers: int, topic: str = "t", member_id: str = "m") -> PartitionsAssigned:
    return PartitionsAssigned(member_id=member_id, member_epoch=LAST, partitions={topic: numbers})


def committed(offset: int) -> OffsetsCommitted:
    entry = CommittedOffsets(partition=0, commits=LAST, first=offset, lowest=offset, last=offset)
    return OffsetsCommitted(
        member_id="m",
        is_transactional=False,
        from_ms=0,
        to_ms=LAST_MOMENT_MS,
        offsets={"t": (entry,)},
    )


def changed(event: GatewayEvent, at_ms: int = START_MS, **changes: Any) -> str:
    """The event's line with other content."""
    writer = EventWriter(group_id="bad")
    writer.tell(1, event)
    line = json.loads(writer.lines[0])
    return json.dumps({**line, "at_ms": at_ms, "fields": {**line["fields"], **changes}})


BAD = (
    changed(assigned(0), partitions={"t": None}),
    changed(assigned(0), partitions={"t": [None]}),
    changed(TopicsDeleted(topics=("t",)), topics=[None]),
    changed(GroupConverted(direction=UP, is_live=True, members=1, cause=""), direction="sideways"),
    changed(committed(1), offsets={"t": [{"partition": 1}]}),
    changed(committed(1), from_ms=LAST),
    changed(GroupCreated(kind="classic"), at_ms=LAST),
    changed(assigned(0), member_id=NAME * 3),
    changed(assigned(0), partitions={NAME * 3: [0]}),
    changed(TopicsDeleted(topics=("t",)), topics=[NAME * 3]),
    changed(GroupCreated(kind="classic")).replace("group_created", NAME),
    '{"event": ' * 2_000,
    '{"event": "' + "x" * LONG,
)
"""Malformed lines that would stop a run later."""


def hostile(writer: EventWriter) -> None:
    """Valid events with the largest numbers and the strangest names."""
    writer.tell(
        0, GroupCreated(kind="classic"), joins(HOSTILE), joins(""), joins("m", instance_id="")
    )
    writer.tell(1, assigned(-LAST - 1, LAST), assigned(0, 0), assigned(1, topic=""))
    writer.beside(2, committed(-LAST - 1), committed(LAST), committed(0))
    released = GrantEnded(
        cause="revoked", member_id=HOSTILE, member_epoch=-1, partitions={HOSTILE: (1,)}
    )
    writer.tell(3, released)
    writer.tell(3, joins(NAME), assigned(7, member_id=NAME, topic=NAME))
    writer.lose(LAST - 20)
    writer.tell(4, TopicsDeleted(topics=("", "t", "t")))


def test_no_line_stops_a_fold() -> None:
    """Each invalid line is counted. Strange names and numbers reach the page, but not as a
    script."""
    lines: list[str] = []
    for group_id in ("", HOSTILE, f"{NAME}a{NAME}", f"{NAME}b{NAME}"):
        writer = EventWriter(group_id=group_id, process_id=f"of {group_id}")
        hostile(writer)
        lines += writer.lines
    digest = Digest(top=10)
    for key, tables in folds(*lines, *BAD):
        digest.add(key, tables)
    digest.cut()
    made = report(Digest.model_validate_json(digest.model_dump_json()), {})
    assert made.totals.rejected_lines == len(BAD)
    assert made.totals.groups == 4
    assert len({group.group_id for group in made.groups}) == 4
    told = re.findall(r'"(?:[^"\\]|\\.)*"', made.model_dump_json())
    assert max(map(len, told)) < 2 * TEXT_MAX, "of names, and of what was rejected"
    assert made.totals.missing_events > LAST
    assert "<script" not in page(made)


def test_no_input_stops_a_run(spark: SparkSession, tmp_path: Path) -> None:
    """Each invalid line is listed with its place, in files of any name; strange names and numbers
    fit into the tables."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines
    from gateway.pipeline.spark.output import Folder

    events, output = tmp_path / "events", Folder(spark, str(tmp_path / "out"))
    events.mkdir()
    writer = EventWriter(group_id=HOSTILE)
    hostile(writer)
    good = len(writer.lines)
    (events / ODD_NAME).write_text("\n".join([*writer.lines, *BAD]))
    (events / "one too many").write_text("garbage\n")
    analysis = Analysis(spark, output, top=10)
    digest = analysis.make(read_lines(spark, [str(events)]))
    places = {f"line {good + n}" for n in range(1, len(BAD) + 1)}
    rejected = analysis.tables()["rejected"].collect()
    assert {row.place for row in rejected} == {*places, "line 1"}
    made = report(digest, analysis.drawn(digest))
    (group,) = made.groups
    assert {member.protocol for member in group.members} == {"classic"}, "with a long name, too"
