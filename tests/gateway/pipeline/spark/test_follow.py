"""A stream that is killed repeatedly has the same result as a batch of the same lines."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.events.gateway_events import GatewayStarted
from tests.support.event_writer import START_MS, EventWriter
from tests.support.followed_tables import differences, figures, rows
from tests.support.offset_history import OffsetHistory
from tests.support.simulated_events import simulated
from tests.support.spark import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHILD_S_MAX = 400
STEPS = 60
ATTEMPTS = 2
"""To take in a batch that crashes."""
DAY_S = 24 * 60 * 60
NOTICED_S = 1
"""The longest time until a signal takes effect, and until the JVM's output is on stderr."""
LONG = "it\n" * 100_000
STARTED = GatewayStarted(version="1", bootstrap="h:1", cluster_id="c", brokers=(1,))

KILLED_WHILE_SWAPPING = f"""
import os, signal, sys
from pathlib import Path
from gateway.pipeline.spark.output import Folder
from gateway.pipeline.spark.session import open_session
from tests.gateway.pipeline.spark.test_follow import followed
pieces = [Path(each).read_bytes() for each in sys.argv[3:]]
replace = Folder.replace
def killed(self, other):
    if "/tables/ownership/" in self.path and not pieces:
        self.delete()
        os.kill(os.getpid(), signal.SIGKILL)
    replace(self, other)
Folder.replace = killed
with open_session("killed", master="local[2]", settings={SETTINGS}) as spark:
    followed(spark, Path(sys.argv[1]), Path(sys.argv[2]), pieces)
"""


class Crashed(Exception):
    """End like a killed process."""


def pieces() -> list[bytes]:
    """Pieces of one file, cut anywhere: histories of two groups, a late line, repeated lines, and
    garbage. The last line names the cluster."""
    lines: list[str] = []
    for seed, group_id in enumerate(("a", "b")):
        lines += history(seed, group_id)
    gateway = EventWriter(process_id="of the gateway")
    gateway.gateway(1, STARTED)
    late = lines.pop(7)
    third = len(lines) // 3
    lines[third:third] = ["no event", *lines[3:9], "{}"]
    text = "".join(f"{line}\n" for line in (*lines, late, *gateway.lines)).encode()
    last = text.index(gateway.lines[0].encode()) - len(late) // 2
    return [text[: last // 2], text[last // 2 : last], text[last:]]


def followed(spark: SparkSession, folder: Path, output: Path, rest: list[bytes]) -> int:
    """Follow a folder. Each piece is appended after the previous one was stored."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.command import follow
    from gateway.pipeline.spark.inputs import growing_lines
    from gateway.pipeline.spark.output import Folder, locked

    out = Folder(spark, str(output))
    analysis = Analysis(spark, out, top=1)

    def take_in(lines: DataFrame, batch: int) -> None:
        analysis.take_in(lines, batch)
        if rest:
            with (folder / "events").open("ab") as file:
                file.write(rest.pop(0))
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    with locked(out, follows=True):
        return follow(spark, growing_lines(spark, [str(folder)]), take_in, out, interval_s=0.1)


def test_a_killed_stream_equals_a_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL comes between two tables, after all events are stored, and after the last table but
    before the checkpoint. The tables are compared row by row."""

    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.output import Folder, Store

    first, second, third = pieces()
    grows, output = tmp_path / "grows", tmp_path / "followed"
    grows.mkdir()
    (grows / "events").write_bytes(first)
    (tmp_path / "second").write_bytes(second)
    command = [sys.executable, "-c", KILLED_WHILE_SWAPPING, f"{grows}", f"{output}"]
    command.append(str(tmp_path / "second"))
    child = subprocess.run(command, check=False, timeout=CHILD_S_MAX, env=environment())
    assert child.returncode == -signal.SIGKILL
    assert (grows / "events").read_bytes() == first + second

    append = Store.append

    def crashed(store: Store, lines: DataFrame, batch: int) -> None:
        append(store, lines, batch)
        if batch == 2:
            raise Crashed

    monkeypatch.setattr(Store, "append", crashed)
    with pytest.raises(Crashed):
        followed(spark, grows, output, [third])
    monkeypatch.undo()
    assert followed(spark, grows, output, []) == signal.SIGTERM

    stream = Analysis(spark, Folder(spark, str(output)), top=1)
    assert not differences(spark, stream, grows, tmp_path / "at-once")
    for name in ("ownership", "rejected"):
        assert rows(stream.tables()[name]), name


def test_a_batch_that_is_taken_in_again_and_again_counts_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch crashes several times, wherever it replaces, renames or deletes files."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.output import Folder

    dice, text = random.Random(0), b"".join(pieces()).decode()
    whole = text.splitlines()
    crashes, left = Counter[str](), [0]

    def risky(name: str) -> None:
        of_folder = getattr(Folder, name)

        def call(folder: Folder, *given: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                crashes[name] += 1
                raise Crashed
            return of_folder(folder, *given)

        monkeypatch.setattr(Folder, name, call)

    for name in ("replace", "delete", "write"):
        risky(name)
    stream = Analysis(spark, Folder(spark, f"{tmp_path}/out"), top=1)
    for batch, some in enumerate((whole[: len(whole) // 2], whole[len(whole) // 2 :])):
        lines = [("f", str(n), None, line) for n, line in enumerate(some)]
        new = spark.createDataFrame(lines, "file string, place string, block long, line string")
        for most in (*dice.choices(range(5, 60), k=ATTEMPTS - 1), 0):
            left[0] = most
            with suppress(Crashed):
                stream.take_in(new, batch)
    monkeypatch.undo()
    assert crashes
    (tmp_path / "events").write_text(text)
    assert not differences(spark, stream, tmp_path / "events", tmp_path / "at-once")


def test_a_kill_loses_no_rows_of_other_groups(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes between the deletion of a part and the move of what replaces it. The batch, which is
    taken in again, is not about the other groups of the bucket."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.output import Folder

    one, other = same_bucket(2)
    some = history(0, one)
    batches = [[*some[: len(some) // 2], *history(1, other)], some[len(some) // 2 :]]
    of_folder = Folder.replace

    def killed(folder: Folder, by: Folder) -> None:
        if "/tables/ownership/" in folder.path:
            folder.delete()
            raise Crashed
        of_folder(folder, by)

    stream = Analysis(spark, Folder(spark, f"{tmp_path}/out"), top=1)
    for batch, lines in enumerate(batches):
        rows = [("f", str(number), None, line) for number, line in enumerate(lines)]
        new = spark.createDataFrame(rows, "file string, place string, block long, line string")
        with monkeypatch.context() as patched, suppress(Crashed):
            patched.setattr(Folder, "replace", killed)
            stream.take_in(new, batch)
        stream.take_in(new, batch)
    (tmp_path / "events").write_text("".join(f"{line}\n" for line in chain(*batches)))
    assert not differences(spark, stream, tmp_path / "events", tmp_path / "at-once")


def test_a_batch_folds_the_groups_that_it_is_about(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever else is in their bucket stays as it is. A line that fills a hole folds its group
    again; a gateway that names another cluster makes all groups fold."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.output import Folder

    one, *others = same_bucket(3)
    lines = {group_id: history(seed, group_id) for seed, group_id in enumerate((one, *others))}
    begun = {group_id: some[: len(some) // 2] for group_id, some in lines.items()}
    late = begun[one].pop(5)
    started = EventWriter(process_id="of the gateway")
    started.gateway(0, STARTED)
    moved = EventWriter(process_id="of its next process")
    moved.gateway(1, replace(STARTED, cluster_id="d"))
    batches = [
        ([*started.lines, "no event", *chain(*begun.values())], {one, *others}),
        (lines[one][len(lines[one]) // 2 :], {one}),
        (lines[others[0]][len(begun[others[0]]) :], {others[0]}),
        ([late, "{}"], {one}),
        (["garbage"], set[str]()),
        (moved.lines, {one, *others}),
    ]
    stream = Analysis(spark, Folder(spark, f"{tmp_path}/out"), top=2)
    schema = "file string, place string, block long, line string"
    for batch, (some, about) in enumerate(batches):
        new = [(one, str(number), None, line) for number, line in enumerate(some)]
        stream.take_in(spark.createDataFrame(new, schema), batch)
        kept = spark.read.parquet(f"{tmp_path}/out/states/*").where("state is not null")
        folded = kept.where("group_id is not null and is_new").select("group_id").collect()
        assert {row.group_id for row in folded} == about, batch
        with (tmp_path / "events").open("a") as file:
            file.writelines(f"{line}\n" for line in some)
        if batch % 2:
            at_once = tmp_path / f"at-once-{batch}"
            assert not differences(spark, stream, tmp_path / "events", at_once), batch


def same_bucket(count: int) -> list[str]:
    """The names of groups."""
    from gateway.pipeline.spark.packing import bucket_of

    names = (f"group-{number}" for number in range(1_000))
    return list(islice((name for name in names if bucket_of(name) == 3), count))


def history(seed: int, group_id: str) -> list[str]:
    """The lines of a simulated group."""
    writer = EventWriter(process_id=f"of {group_id}", group_id=group_id)
    for step in simulated(seed)[:STEPS]:
        (writer.tell if step.is_durable else writer.beside)(step.at_ms / 1000, *step.events)
    return writer.lines


@pytest.mark.parametrize("had_shape", [False, True])
def test_states_of_another_version_are_folded_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, had_shape: bool
) -> None:
    """Whatever they and the tables look like, and if the first attempt crashes."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.output import Folder, States

    whole = b"".join(pieces()).decode().splitlines()
    schema = "file string, place string, block long, line string"
    lines = [("f", str(number), None, line) for number, line in enumerate(whole)]
    out = tmp_path / "out"
    old = Analysis(spark, Folder(spark, f"{out}"), top=1)
    assert not old.is_outdated()
    old.take_in(spark.createDataFrame(lines[: len(lines) // 2], schema), 0)
    assert not old.is_outdated()

    (its,) = (out / "states").iterdir()
    shutil.rmtree(its)
    older = out / "states" / "shape=old" if had_shape else out / "states"
    spark.sql("select 'old' as state, 3 as bucket").write.parquet(f"{older}/batch=0")
    for part in (out / "tables").glob("*/batches=*"):
        shutil.rmtree(part)
        spark.sql("select 'old' as group_id, 3 as bucket").write.partitionBy("bucket").parquet(
            f"{part}"
        )

    def put(_states: States, _rows: DataFrame, _batch: int) -> None:
        raise Crashed

    stream = Analysis(spark, Folder(spark, f"{out}"), top=1)
    new = spark.createDataFrame(lines[len(lines) // 2 :], schema)
    with monkeypatch.context() as patched:
        patched.setattr(States, "put", put)
        with pytest.raises(Crashed):
            stream.take_in(new, 1)
    assert stream.is_outdated()
    stream.take_in(new, 1)
    assert not stream.is_outdated()
    assert [each.name for each in (out / "states").iterdir()] == [its.name]
    (tmp_path / "events").write_text("".join(f"{line}\n" for line in whole))
    assert not differences(spark, stream, tmp_path / "events", tmp_path / "at-once")


def test_old_lines_and_closed_rows_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    """The owners of a group that has only committed since are still known."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.output import Folder
    from gateway.pipeline.spark.packing import SEPARATOR

    it = OffsetHistory("g")
    it.gets(0, "a")
    stream = Analysis(spark, Folder(spark, f"{tmp_path}/out"), top=1, keep_days=2)
    rows: list[int] = []
    for day in range(5):
        taken = len(it.writer.lines)
        for minute in range(10):
            it.commits(day * DAY_S + 60 * minute, "a", 100 * day + minute + 1)
        new = [("f", "", None, line) for line in it.writer.lines[taken if day else 0 :]]
        schema = "file string, place string, block long, line string"
        stream.take_in(spark.createDataFrame(new, schema), day)
        rows.append(stream.tables()["offsets"].count())
    assert rows[2:] == [30, 30, 30]
    stored = spark.read.parquet(f"{tmp_path}/out/lines").where("group_id = 'g'").collect()
    assert sum(len(row.line.split(SEPARATOR)) for row in stored) == 30
    assert stream.tables()["ownership"].where("kind = 'owner'").count() == 2
    assert not stream.tables()["ownership"].where("kind != 'owner'").count()


def test_an_event_from_the_future_deletes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """The clock of one gateway may be wrong by years."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.output import Folder

    now_s = time.time() - START_MS / 1000
    histories = [OffsetHistory("g"), OffsetHistory("h")]
    for it in histories:
        it.gets(now_s - 10, "a")
    stream = Analysis(spark, Folder(spark, f"{tmp_path}/out"), top=1, keep_days=2)
    schema = "file string, place string, block long, line string"
    for batch, at_s in enumerate((now_s, now_s + 1_000 * DAY_S)):
        it = histories[batch]
        it.commits(at_s, "a", 1)
        new = [("f", "", None, line) for line in it.writer.lines]
        stream.take_in(spark.createDataFrame(new, schema), batch)
    assert not spark.read.parquet(f"{tmp_path}/out/lines").where("group_id = 'g'").isEmpty()
    assert stream.tables()["offsets"].count() == 2


def test_late_lines_do_not_make_deleted_ones_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    """What the deleted lines tell of a group still counts after a line comes twice, fills a hole,
    or comes later than any line is kept. Closed rows are deleted, too, if each day begins with a
    late line."""
    from gateway.pipeline.report.verdict import judge
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines
    from gateway.pipeline.spark.output import Folder

    it = OffsetHistory("g")
    it.gets(0, "a")
    it.gets(5, "b")  # an overlap
    it.gives(9, "a")
    stream = Analysis(spark, Folder(spark, f"{tmp_path}/out"), top=1, keep_days=2)
    days: list[list[str]] = []
    for day in range(6):
        taken = len(it.writer.lines)
        for minute in range(10):
            it.commits(day * DAY_S + 60 * minute + 20, "b", 100 * day + minute + 1)
        days.append(it.writer.lines[taken if day else 0 :])
    oldest, hole = days[0][3], days[3].pop(4)
    batches: list[list[str]] = [*days[:3], [*days[3], days[3][1]], [hole, *days[4]]]
    batches += [[days[4][2], *days[5]], [oldest], [days[5][-2]]]
    schema = "file string, place string, block long, line string"
    for batch, lines in enumerate(batches):
        new = [("f", "", None, line) for line in lines]
        stream.take_in(spark.createDataFrame(new, schema), batch)
        found = judge(stream.digest()).faults
        counts = {fault.name: fault.count for fault in found if fault.count}
        gaps = {"gaps in sequences": 1} if batch == 3 else {}
        assert counts == {"partitions owned twice": 1, **gaps}, batch
        assert stream.tables()["offsets"].count() <= 40, batch
    assert stream.tables()["offsets"].count() == 30
    text = "".join(f"{line}\n" for lines in batches for line in lines)
    (tmp_path / "events").write_text(text)
    at_once = Analysis(spark, Folder(spark, f"{tmp_path}/at-once"), top=1)
    expected = at_once.make(read_lines(spark, [f"{tmp_path}/events"]))
    assert figures(stream.digest()) == figures(expected)


def test_a_signal_within_a_batch_ends_the_stream_silently(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The interrupted job fails with a long text, which Spark would otherwise print in a thousand
    lines."""
    from gateway.pipeline.spark.command import follow
    from gateway.pipeline.spark.inputs import growing_lines
    from gateway.pipeline.spark.output import Folder  # needs PySpark

    def interrupted(_lines: DataFrame, _batch: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(NOTICED_S)
        raise Crashed("py4j.protocol.Py4JJavaError: An error occurred while calling " + LONG)

    (tmp_path / "events").write_text("{}\n")
    lines, out = growing_lines(spark, [str(tmp_path / "events")]), Folder(spark, f"{tmp_path}/out")
    assert follow(spark, lines, interrupted, out, interval_s=0.1) == signal.SIGTERM
    time.sleep(NOTICED_S)
    assert not capsys.readouterr().err


def environment() -> dict[str, str]:
    """The child imports the modules of this process."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
