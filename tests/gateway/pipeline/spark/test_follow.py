"""A stream that is killed repeatedly has the same result as a batch of the same lines."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.events.gateway_events import GatewayStarted
from tests.support.event_writer import START_MS, EventWriter
from tests.support.followed_tables import differences, rows
from tests.support.offset_history import OffsetHistory
from tests.support.simulated_events import simulated
from tests.support.spark import SETTINGS
from tests.support.stories import Story

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
    from gateway.pipeline.spark.output import Folder, lock

    out = Folder(spark, str(output))
    analysis = Analysis(spark, out, top=1)

    def take_in(lines: DataFrame, batch: int) -> None:
        analysis.take_in(lines, batch)
        if rest:
            with (folder / "events").open("ab") as file:
                file.write(rest.pop(0))
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    with lock(out, follows=True):
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
    for name in ("ownership", "unread"):
        assert rows(stream.table(name)), name


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


def test_a_late_line_counts(spark: SparkSession, tmp_path: Path) -> None:
    """It fills a hole, and nothing is missing any more."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.output import Folder

    lines = history(0, "a")
    late = lines.pop(5)
    stream = Analysis(spark, Folder(spark, f"{tmp_path}/out"), top=2)
    schema = "file string, place string, block long, line string"
    for batch, (new, gaps) in enumerate(((lines, 1), ([late], 0))):
        batch_lines = [("f", str(number), None, line) for number, line in enumerate(new)]
        stream.take_in(spark.createDataFrame(batch_lines, schema), batch)
        assert stream.table("unread").where("kind = 'missing'").count() == gaps
    (tmp_path / "events").write_text("".join(f"{line}\n" for line in (*lines, late)))
    assert not differences(spark, stream, tmp_path / "events", tmp_path / "at-once")


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


def test_old_lines_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    """The owner of a group that has only committed since is still known, because each day begins
    with what the group has."""
    from gateway.pipeline.spark.analysis import Analysis  # needs PySpark
    from gateway.pipeline.spark.output import Folder
    from gateway.pipeline.spark.packing import SEPARATOR

    stream = Analysis(spark, Folder(spark, f"{tmp_path}/out"), top=1, keep_days=2)
    story = Story()
    story.tell("0 start")
    taken = 0
    for day in range(5):
        story.tell(f"{day * DAY_S + 1} load a:t-0")
        for minute in range(10):
            offset = 100 * day + minute + 1
            story.tell(f"{day * DAY_S + 60 * minute + 60} commit a t-0={offset}")
        new = [("f", "", None, line) for line in story.lines[taken:]]
        taken = len(story.lines)
        schema = "file string, place string, block long, line string"
        stream.take_in(spark.createDataFrame(new, schema), day)
    stored = spark.read.parquet(f"{tmp_path}/out/lines").where("group_id = 'orders'").collect()
    assert sum(len(row.line.split(SEPARATOR)) for row in stored) == 33 + 11
    (owner,) = stream.table("ownership").collect()
    assert owner.member_id == "a"
    assert {row.kind for row in stream.table("unread").collect()} == {"no end"}


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
    assert stream.table("offsets").count() == 2


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
