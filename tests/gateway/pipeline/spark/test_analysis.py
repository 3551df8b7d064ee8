"""A run makes its tables and its page from any files, and counts lines that are not events."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupConverted, GroupCreated, TopicsDeleted
from gateway.events.member_events import GrantEnded, PartitionsAssigned
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from gateway.pipeline.fold.rows import ALL_ROWS, RunRow, columns
from gateway.pipeline.report.verdict import judge
from gateway.pipeline.tables import write_run
from tests.gateway.pipeline.planted_faults import plant
from tests.support.event_writer import START_MS, EventWriter
from tests.support.folded_lines import summary_of
from tests.support.group_events import UP, joins
from tests.support.requirements import missing
from tests.support.stored_tables import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[4] / "gateway" / "docs" / "report-sql.md"
RUN = RunRow(
    cluster_id="",
    inputs=("events",),
    version="1",
    verdict="SAFE",
    groups=1,
    lines=1,
    unread=0,
    handovers=1,
    compared=1,
    not_compared={},
    from_ms=START_MS,
    to_ms=START_MS,
    made_ms=START_MS,
    took_s=1.0,
)
LAST = (1 << 63) - 1
LAST_MOMENT_MS = 253_402_300_799_999
LONG = 20 << 20
HOSTILE = '"><script>alert(1)</script>\u202e\x00'
NAME = "x" * 16_000
"""Strings that a client may choose as names."""
ODD_NAME = "a b%20[1]{x}*?.jsonl"


def assignment_event(*numbers: int, topic: str = "t", member_id: str = "m") -> PartitionsAssigned:
    return PartitionsAssigned(member_id=member_id, member_epoch=LAST, partitions={topic: numbers})


def commit_event(offset: int) -> OffsetsCommitted:
    entry = CommittedOffsets(partition=0, commits=LAST, first=offset, lowest=offset, last=offset)
    return OffsetsCommitted(
        member_id="m",
        is_transactional=False,
        from_ms=0,
        to_ms=LAST_MOMENT_MS,
        offsets={"t": (entry,)},
    )


def changed_line(event: GatewayEvent, at_ms: int = START_MS, **changes: Any) -> str:
    """The event's line with other content."""
    writer = EventWriter(group_id="bad")
    writer.emit(1, event)
    line = json.loads(writer.lines[0])
    return json.dumps({**line, "at_ms": at_ms, "fields": {**line["fields"], **changes}})


BAD = (
    changed_line(assignment_event(0), partitions={"t": None}),
    changed_line(assignment_event(0), partitions={"t": [None]}),
    changed_line(TopicsDeleted(topics=("t",)), topics=[None]),
    changed_line(
        GroupConverted(direction=UP, is_live=True, members=1, cause=""), direction="sideways"
    ),
    changed_line(commit_event(1), offsets={"t": [{"partition": 1}]}),
    changed_line(commit_event(1), from_ms=LAST),
    changed_line(GroupCreated(kind="classic"), at_ms=LAST),
    changed_line(assignment_event(0), member_id=NAME * 3),
    changed_line(assignment_event(0), partitions={NAME * 3: [0]}),
    changed_line(TopicsDeleted(topics=("t",)), topics=[NAME * 3]),
    changed_line(GroupCreated(kind="classic")).replace("group_created", NAME),
    '{"event": ' * 2_000,
    '{"event": "' + "x" * LONG,
)
"""Malformed lines that would stop a run later."""


def hostile(writer: EventWriter) -> None:
    """Valid events with the largest numbers and the strangest names."""
    writer.emit(
        0, GroupCreated(kind="classic"), joins(HOSTILE), joins(""), joins("m", instance_id="")
    )
    writer.emit(
        1, assignment_event(-LAST - 1, LAST), assignment_event(0, 0), assignment_event(1, topic="")
    )
    writer.beside(2, commit_event(-LAST - 1), commit_event(LAST), commit_event(0))
    released = GrantEnded(
        cause="revoked", member_id=HOSTILE, member_epoch=-1, partitions={HOSTILE: (1,)}
    )
    writer.emit(3, released)
    writer.emit(3, joins(NAME), assignment_event(7, member_id=NAME, topic=NAME))
    writer.lose(LAST - 20)
    writer.emit(4, TopicsDeleted(topics=("", "t", "t")))


def test_no_line_stops_a_fold() -> None:
    """Each invalid line is counted. Strange names and numbers reach the page, but not as a
    script."""
    lines: list[str] = []
    for group_id in ("", HOSTILE, f"{NAME}a{NAME}", f"{NAME}b{NAME}"):
        writer = EventWriter(group_id=group_id, process_id=f"of {group_id}")
        hostile(writer)
        lines += writer.lines
    summary = summary_of(*lines, *BAD, top=10)
    assert summary.unread["line"].count == len(BAD)
    assert {group.group_id for group in summary.worst} == {
        *("", HOSTILE, f"{NAME}a{NAME}", f"{NAME}b{NAME}"),
        "bad",
    }
    text = "\n".join(judge(summary).lines)
    assert "\u202e" not in text
    assert "\x00" not in text


def test_no_input_stops_a_run(spark: SparkSession, tmp_path: Path) -> None:
    """Each invalid line is listed with its place, in files of any name; strange names and numbers
    fit into the tables."""
    from gateway.pipeline.folder import Folder
    from gateway.pipeline.spark.folding import make_on_spark  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines

    events, output = tmp_path / "events", Folder(str(tmp_path / "out"))
    events.mkdir()
    writer = EventWriter(group_id=HOSTILE)
    hostile(writer)
    good = len(writer.lines)
    (events / ODD_NAME).write_text("\n".join([*writer.lines, *BAD]))
    (events / "one too many").write_text("garbage\n")
    summary = make_on_spark(spark, read_lines(spark, [str(events)]), output, top=10)
    places = {f"line {good + n}" for n in range(1, len(BAD) + 1)}
    unread = table(spark, output.path, "unread").where("kind = 'line'").collect()
    assert {row.place for row in unread} == {*places, "line 1"}
    assert {group.group_id for group in summary.worst} == {HOSTILE, "bad"}


def test_every_table_has_its_columns_and_what_they_mean(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One without rows, too. Clusters and days name the folders."""
    from gateway.pipeline.folder import Folder
    from gateway.pipeline.spark.folding import make_on_spark  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines

    output = tmp_path / "out"
    plant(tmp_path / "events")
    lines, folder = read_lines(spark, [str(tmp_path / "events")]), Folder(str(output))
    make_on_spark(spark, lines, folder, top=10)
    write_run(folder, RUN)
    for name, row in ALL_ROWS.items():
        assert table(spark, output, name).columns == [*columns(row), "cluster", "day"], name
        for file in (output / "tables" / name).rglob("*.parquet"):
            assert [part.partition("=")[0] for part in file.parts[-3:-1]] == ["cluster", "day"]
            schema = pq.read_schema(file)
            assert schema.names == list(columns(row))
            assert "schema_version" in str(schema.metadata), name
    clusters = {path.name for path in (output / "tables" / "findings").glob("*=*")}
    assert clusters == {"cluster=c", "cluster=unknown"}
    assert [row.partitions_moved for row in table(spark, output, "rebalances").collect()] == []
    assert table(spark, output, "runs").count() == 1


def queries(kind: str) -> list[tuple[str, str]]:
    """The SQL of the page, with the heading above it."""
    text = PAGE.read_text()
    blocks = re.findall(r"^### (.*?)\n.*?```sql\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    assert blocks
    return [(name, sql) for name, sql in blocks if name.startswith("No ") is (kind == "check")]


def duckdb_module() -> Any:
    """DuckDB, which is installed for the tests on Spark."""
    try:
        return import_module("duckdb")
    except ImportError:
        missing("duckdb is not installed: pip install -c constraints.txt '.[test]'")


def test_the_sql_of_the_docs_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The examples on Spark and on DuckDB. The data tests find no row."""
    from gateway.pipeline.folder import Folder
    from gateway.pipeline.spark.folding import make_on_spark  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines

    plant(tmp_path / "events")
    lines, folder = read_lines(spark, [str(tmp_path / "events")]), Folder(f"{tmp_path}/out")
    make_on_spark(spark, lines, folder, top=10)
    write_run(folder, RUN)
    for name in ALL_ROWS:
        table(spark, folder.path, name).createOrReplaceTempView(name)
    for name, sql in queries("example"):
        assert spark.sql(sql).collect() or "blocked" in sql or "migration" in sql, name
    for name, sql in queries("check"):
        assert spark.sql(sql).collect() == [], name
    duckdb = duckdb_module()
    database = duckdb.connect()
    for name in ALL_ROWS:
        files = f"{tmp_path}/out/tables/{name}/*/*/*.parquet"
        database.sql(
            f"create view {name} as select * from read_parquet('{files}', hive_partitioning = true)"
        )
    for name, sql in (*queries("example"), *queries("check")):
        rows = database.sql(sql).fetchall()
        assert not name.startswith("No ") or rows == [], name
