"""`groupferry report` as users call it: its files, its output, and its exit status."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset
import pytest

from gateway import cli
from gateway.commands import dispatch
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from gateway.pipeline.fold.rows import ALL_ROWS, columns
from tests.gateway.pipeline.planted_faults import FAULTY, plant
from tests.gateway.pipeline.stories import play_story
from tests.support.event_writer import START_MS, EventWriter
from tests.support.folded_lines import fold_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from gateway.pipeline.folder import Folder
    from gateway.pipeline.report.summary import Summary

TIMEOUT_S = 500
SMALL_HEAP = "480m"
"""The least that Spark starts with."""


@pytest.fixture
def spark_is_open(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, run in this process, uses the session of the tests."""
    from gateway.pipeline.spark import session  # needs PySpark

    monkeypatch.setattr(session, "open_session", lambda *_, **__: nullcontext(spark))


ON_SPARK = "--conf=spark.ui.enabled=false"
"""Without any option, this process makes a small report itself."""


@pytest.mark.usefixtures("spark_is_open")
@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize("options", [(), (ON_SPARK,)])
def test_a_report_has_the_verdict_of_groupferry_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    """Words and exit status are the same. A second run replaces all results of the first."""
    events, output = tmp_path / "events", tmp_path / "report"
    plant(events)
    check = ["report", f"{events}", "--output", f"{output}", "--check", *options]
    assert dispatch.run(["verdict", f"{events}"]) == 1
    quickly = capsys.readouterr().out
    assert dispatch.run(check) == 1
    assert capsys.readouterr().out == f"{quickly}{output}/report.html\n"
    numbers = json.loads((output / "report.json").read_text())
    assert numbers["verdict"]["word"] == "NOT SAFE"
    assert "faulty" in (output / "report.html").read_text()

    (events / "planted").unlink()
    (events / "garbage").unlink()
    assert dispatch.run(check) == 0, capsys.readouterr().out
    assert capsys.readouterr().out.startswith("SAFE\n1 of 1 hand-over compared")
    assert "faulty" not in (output / "report.html").read_text()
    assert sorted(path.name for path in output.iterdir() if path.suffix != ".crc") == [
        *("lock", "report.html", "report.json", "tables")
    ]


def test_a_small_report_needs_no_spark(tmp_path: Path) -> None:
    """Its tables have the rows that Spark would write, also those without any."""
    events, output = tmp_path / "events", tmp_path / "report"
    events.write_text("\n".join([*play_story(FAULTY).lines, ""]))
    assert dispatch.run(["report", f"{events}", f"--output={output}"]) == 0
    tables = fold_texts(*play_story(FAULTY).lines)
    for name in ALL_ROWS:
        table = pyarrow.dataset.dataset(f"{output}/tables/{name}", partitioning="hive")
        assert table.count_rows() == (len(getattr(tables, name)) if name != "runs" else 1), name
        assert set(columns(ALL_ROWS[name])) <= set(table.schema.names)


@pytest.mark.usefixtures("spark_is_open")
@pytest.mark.parametrize("options", [(), (ON_SPARK,)])
def test_an_interrupted_report_is_one_line_and_no_table(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
) -> None:
    """Ctrl-C interrupts it. The old report stays, and the next run makes a whole one."""
    from gateway.pipeline import command  # needs PySpark
    from gateway.pipeline.spark import folding

    def interrupt(*_given: object) -> None:
        raise KeyboardInterrupt

    events, output = tmp_path / "events", tmp_path / "report"
    events.write_text("\n".join([*play_story(FAULTY).lines, ""]))
    run = ["report", f"{events}", f"--output={output}", *options]
    with monkeypatch.context() as patch:
        for module in (folding, command):
            patch.setattr(module, "write_files", interrupt)
        with pytest.raises(SystemExit) as ended:
            cli.main(run)
        assert ended.value.code == 128 + signal.SIGINT
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"groupferry: interrupted; {output} is as it was\n")
    assert not (output / "tables").exists()
    assert cli.main(run) == 0
    assert (output / "tables").exists()


@pytest.mark.usefixtures("spark_is_open")
@pytest.mark.parametrize("options", [(), (ON_SPARK,)])
def test_sigterm_ends_a_report_as_ctrl_c_does(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
) -> None:
    """Its exit status names the signal."""
    from gateway.pipeline import command  # needs PySpark
    from gateway.pipeline.spark import folding

    def terminate(*_given: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    events, output = tmp_path / "events", tmp_path / "report"
    events.write_text("\n".join([*play_story(FAULTY).lines, ""]))
    handler = signal.getsignal(signal.SIGTERM)
    for module in (folding, command):
        monkeypatch.setattr(module, "write_files", terminate)
    with pytest.raises(SystemExit) as ended:
        cli.main(["report", f"{events}", f"--output={output}", *options])
    assert ended.value.code == 128 + signal.SIGTERM
    assert capsys.readouterr() == ("", f"groupferry: interrupted; {output} is as it was\n")
    assert not (output / "tables").exists()
    assert signal.getsignal(signal.SIGTERM) == handler


def making(spark: SparkSession, events: Path) -> Callable[[Folder], Summary]:
    """Makes the tables of these events."""
    from gateway.pipeline.spark.folding import make_on_spark  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines

    return lambda new: make_on_spark(spark, read_lines(spark, [str(events)]), new, top=10)


class Failed(Exception):
    """An error that occurs after the tables were made."""


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_failed_run_leaves_the_old_report_and_its_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old report and the old tables belong together."""
    from gateway.pipeline import command  # needs PySpark
    from gateway.pipeline.folder import Folder

    events, output = tmp_path / "events.jsonl", tmp_path / "report"
    events.write_text("\n".join([*play_story(FAULTY).lines, ""]))
    (output / "tables" / "ownership").mkdir(parents=True)
    old = [output / "report.html", output / "report.json", output / "tables/ownership/old.parquet"]
    for path in old:
        path.write_text("old")

    def fail(*_arguments: object) -> None:
        raise Failed

    monkeypatch.setattr(command, "write_report", fail)
    with pytest.raises(Failed):
        command.renew(making(spark, events), Folder(str(output)), ())
    assert [path.read_text() for path in old] == ["old", "old", "old"]
    assert {path.name for path in (output / "tables").iterdir()} == {"ownership"}


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_run_that_is_killed_while_it_replaces_the_old_report_has_finished_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run continues to move it, even if it fails itself."""
    from gateway.pipeline import command  # needs PySpark
    from gateway.pipeline.folder import Folder

    events, output = tmp_path / "events.jsonl", tmp_path / "report"
    events.write_text("\n".join([*play_story(FAULTY).lines, ""]))
    of_folder = Folder.replace

    def die_while_moving(folder: Folder, by: Folder) -> None:
        if folder.path == str(output / "tables"):
            folder.delete()
            raise Failed
        of_folder(folder, by)

    def fail(*_arguments: object) -> None:
        raise Failed

    for of, name, instead in (
        (Folder, "replace", die_while_moving),
        (command, "write_report", fail),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(of, name, instead)
            with pytest.raises(Failed):
                command.renew(making(spark, events), Folder(str(output)), ())
    assert {"report.html", "report.json", "tables"} <= {path.name for path in output.iterdir()}
    assert (output / "tables" / "ownership").exists()


@pytest.mark.usefixtures("spark_is_open")
def test_events_without_a_group_are_not_called_safe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user may have named the wrong folder."""
    events, output = tmp_path / "events", tmp_path / "report"
    events.mkdir()
    (events / "empty").touch()
    (events / "garbage").write_bytes(bytes(range(256)) * 20)
    assert dispatch.run(["report", f"{events}", f"--output={output}", "--check"]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert re.fullmatch(r"NOT PROVEN: no line is about a group; \d+ lines could not be read", first)


@pytest.mark.usefixtures("spark_is_open")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("{}/nothing", "--output={}/out"), "nothing"),
        (("{}", "--output={}/out"), "choose another folder"),
    ],
)
def test_an_impossible_run_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    """The line is on stderr, with the exit status of a failed run."""
    assert dispatch.run(["report", *(argument.format(tmp_path) for argument in arguments)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("groupferry: ")
    assert reason in line


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_the_heap_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """All rows together have more bytes than the heap."""
    offsets = tuple(
        CommittedOffsets(partition=number, commits=1, first=1, lowest=1, last=1)
        for number in range(50)
    )
    writer = EventWriter(group_id="g" * 4_000)
    for second in range(2_500):
        at_ms = START_MS + second * 1000
        writer.beside(
            second,
            OffsetsCommitted(
                member_id="m",
                is_transactional=False,
                from_ms=at_ms,
                to_ms=at_ms,
                offsets={"t": offsets},
            ),
        )
    (tmp_path / "events").write_text("\n".join(writer.lines))
    run = subprocess.run(
        [
            *(sys.executable, "-m", "gateway", "report", f"{tmp_path / 'events'}"),
            *(f"--output={tmp_path / 'report'}", f"--conf=spark.driver.memory={SMALL_HEAP}"),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert run.returncode == 0, run.stderr
