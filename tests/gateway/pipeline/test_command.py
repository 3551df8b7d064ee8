"""`groupferry report` as users call it: its files, its output, and its exit status."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway import commands
from gateway.events.group_events import GroupCreated
from gateway.events.line_files import FOLDER_NAME
from gateway.events.member_events import PartitionsAssigned, PartitionsReleased
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted, OffsetsFetched
from tests.support.scribe import START_MS, Scribe
from tests.support.spark import SETTINGS, need_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 500


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "gateway", "report", *arguments),
            *(f"--conf={name}={value}" for name, value in SETTINGS.items()),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def commit(member_id: str, offset: int, at_s: int) -> OffsetsCommitted:
    stored = CommittedOffsets(partition=1, commits=1, first=offset, lowest=offset, last=offset)
    at_ms = START_MS + at_s * 1000
    return OffsetsCommitted(
        member_id=member_id,
        is_transactional=False,
        from_ms=at_ms,
        to_ms=at_ms,
        offsets={"t": (stored,)},
    )


def assigned(member_id: str, *numbers: int) -> PartitionsAssigned:
    return PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={"t": numbers})


def faulty() -> Scribe:
    """Partition 0 has two owners, the offset of partition 1 goes back, three lines are missing, and
    one number has two contents."""
    scribe = Scribe(group_id="faulty", process_id="faulty")
    scribe.tell(1, GroupCreated(kind="consumer"), assigned("a", 0, 1))
    scribe.beside(2, commit("a", 100, 2))
    released = PartitionsReleased(member_id="a", member_epoch=1, partitions={"t": (1,)})
    scribe.tell(3, assigned("b", 0), released, assigned("b", 1))
    scribe.beside(5, commit("b", 40, 4))
    scribe.lose(3)
    scribe.tell(6, PartitionsReleased(member_id="b", member_epoch=1, partitions={"t": (0, 1)}))
    scribe.lines.append(scribe.lines[-1].replace('"b"', '"c"'))
    return scribe


def unreadable() -> Scribe:
    """The last event is unreadable: its number is known, but not the partition that it assigned."""
    scribe = Scribe(group_id="unreadable", process_id="unreadable")
    scribe.tell(1, GroupCreated(kind="consumer"), assigned("a", 0))
    scribe.lines[-1] = scribe.lines[-1].replace('"schema_version":1', '"schema_version":2')
    return scribe


def demo(folder: Path) -> Path:
    """A short demo with one file of events."""
    command = [sys.executable, "-m", "gateway", "demo", "--log-level=error"]
    options = [f"--state-dir={folder}", "--consumers=2", "--partitions=4"]
    subprocess.run([*command, *options], capture_output=True, timeout=TIMEOUT_S, check=True)
    (events,) = (folder / FOLDER_NAME).iterdir()
    return events


def lose_commit(events: Path) -> str:
    """Change the last fetched offset of one partition to 0. Returns that partition."""
    lines = events.read_text().splitlines()
    place = max(place for place, line in enumerate(lines) if OffsetsFetched.name in line)
    told = json.loads(lines[place])
    ((topic, starts),) = told["fields"]["starts"].items()
    assert starts[0]["offset"] > 0
    starts[0]["offset"] = 0
    lines[place] = json.dumps(told)
    events.write_text("\n".join([*lines, ""]))
    return f"{topic}-{starts[0]['partition']}"


@pytest.fixture
def spark_is_open(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, run in this process, uses the session of the tests."""
    from gateway.pipeline import command  # needs PySpark

    monkeypatch.setattr(command, "open_session", lambda *_, **__: nullcontext(spark))


@pytest.mark.usefixtures("spark_is_open")
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_check_of_a_demo_finds_planted_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It works beside a file of garbage, which is counted. The demo itself is safe: a second run
    over its own events replaces all results of the first."""
    events, output = demo(tmp_path / "demo"), tmp_path / "report"
    check = ["report", f"{events.parent}", "--output", f"{output}", "--check"]
    sound, lost_in = events.read_text(), lose_commit(events)
    planted, garbage = events.parent / "planted.jsonl", events.parent / "garbage"
    planted.write_text("\n".join([*faulty().lines, *unreadable().lines, ""]))
    garbage.write_bytes(bytes(range(256)) * 20)
    assert commands.run(check) == 1
    said = capsys.readouterr().out
    for words in (
        "1 partitions owned twice",
        "1 offsets gone back",
        f"1 commits lost:\n  group demo: {lost_in}: ",
        "1 gaps in sequences",
        "1 events with two versions",
        "1 events that could not be read:\n  group unreadable: ",
        "partitions_assigned of schema version 2 is not known",
        "faulty",
    ):
        assert words in said
    numbers = json.loads((output / "report.json").read_text())
    assert numbers["totals"]["rejected_lines"] > 0
    assert "faulty" in (output / "report.html").read_text()

    events.write_text(sound)
    planted.unlink()
    garbage.unlink()
    assert commands.run(check) == 0, capsys.readouterr().out
    assert "faulty" not in (output / "report.html").read_text()
    assert sorted(each.name for each in output.iterdir() if each.suffix != ".crc") == [
        *("lock", "report.html", "report.json", "tables")
    ]


class Failed(Exception):
    """An error that occurs after the tables were made."""


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_failed_run_leaves_the_old_report_and_its_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They belong together."""
    from gateway.pipeline import command  # needs PySpark
    from gateway.pipeline.folders import Folder
    from gateway.pipeline.lines import read_lines

    events, output = tmp_path / "events.jsonl", tmp_path / "report"
    events.write_text("\n".join([*faulty().lines, ""]))
    (output / "tables" / "ownership").mkdir(parents=True)
    old = [output / "report.html", output / "report.json", output / "tables/ownership/old.parquet"]
    for each in old:
        each.write_text("old")

    def fail(*_arguments: object) -> None:
        raise Failed

    monkeypatch.setattr(command, "write_report", fail)
    with pytest.raises(Failed):
        command.renew(spark, read_lines(spark, [str(events)]), Folder(spark, str(output)), 10)
    assert [each.read_text() for each in old] == ["old", "old", "old"]
    assert {each.name for each in (output / "tables").iterdir()} == {"ownership"}


@pytest.mark.spark
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_events_without_a_group_are_not_called_safe(tmp_path: Path) -> None:
    """The command runs in a process and a JVM of its own."""
    need_spark()
    events, output = tmp_path / "events", tmp_path / "report"
    events.mkdir()
    (events / "empty").touch()
    (events / "garbage").write_bytes(bytes(range(256)) * 20)
    found = report(str(events), "--output", str(output), "--check")
    assert found.returncode == 1, found.stderr
    first, second, _page = found.stdout.splitlines()
    assert first == "nothing to judge: the events mention no group"
    assert re.fullmatch(r"\d+ lines could not be read: tables/rejected", second)


@pytest.mark.spark
@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("{}/nothing", "--output", "{}/out"), "nothing"),
        (("{}", "--output", "{}/out"), "choose another folder"),
    ],
)
def test_an_impossible_run_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    """The line is on stderr, with the exit status of a failed run."""
    need_spark()
    found = report(*(each.format(tmp_path) for each in arguments))
    assert found.returncode == 1
    (line,) = found.stderr.splitlines()
    assert line.startswith("groupferry: ")
    assert why in line


def test_a_continuous_run_has_no_final_verdict() -> None:
    """The combination is a usage error, reported before Spark starts."""
    found = report("events", "--output", "report", "--follow", "--check")
    assert found.returncode == 2
    assert (
        found.stderr
        == "groupferry: --check: does not work with --follow, which has no final verdict\n"
    )
