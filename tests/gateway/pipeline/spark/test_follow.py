"""A `--follow` that is killed repeatedly has the same result as one report on the same lines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.events.gateway_events import GatewayStarted
from gateway.pipeline import command
from gateway.pipeline.following import Following
from gateway.pipeline.sources import Sources
from tests.support.event_writer import EventWriter
from tests.support.followed_tables import differences
from tests.support.simulated_events import simulate_events
from tests.support.stored_tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from gateway.pipeline.fold.folding import SourceLine
    from gateway.pipeline.report.summary import Summary
    from gateway.pipeline.sources import Offsets

CHILD_S_MAX = 400
STEPS = 60
STARTED = GatewayStarted(version="1", bootstrap="h:1", cluster_id="c", brokers=(1,))

KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from gateway.pipeline.folder import Folder
from tests.gateway.pipeline.spark.test_follow import follow_while_growing
pieces = [Path(name).read_bytes() for name in sys.argv[3:]]
write_bytes = Folder.write_bytes
def killed(self, name, data):
    if "/followed/tables/ownership/" in self.path and not pieces:
        os.kill(os.getpid(), signal.SIGKILL)
    write_bytes(self, name, data)
Folder.write_bytes = killed
follow_while_growing(Path(sys.argv[1]), Path(sys.argv[2]), pieces)
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


def history(seed: int, group_id: str) -> list[str]:
    """The lines of a simulated group."""
    writer = EventWriter(process_id=f"of {group_id}", group_id=group_id)
    for step in simulate_events(seed)[:STEPS]:
        (writer.emit if step.is_durable else writer.beside)(step.at_ms / 1000, *step.events)
    return writer.lines


def follow_while_growing(folder: Path, output: Path, rest: list[bytes]) -> object:
    """Follow a folder. Each piece is appended after the previous one was stored, and a signal comes
    after the last one."""
    take_in = Following.take_in

    def take_in_and_grow(
        following: Following, lines: Iterable[SourceLine], offsets: Offsets
    ) -> Summary:
        summary = take_in(following, lines, offsets)
        if rest:
            with (folder / "events").open("ab") as file:
                file.write(rest.pop(0))
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        return summary

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Following, "take_in", take_in_and_grow)
        return follow(folder, output)


def follow(folder: Path, output: Path) -> object:
    """Returns the exit status."""
    sources = Sources(inputs=(f"{folder}",))
    with pytest.raises(SystemExit) as ended:
        command.run_follow(sources, f"{output}", top=1, interval_s=0.1, keep_days=None)
    return ended.value.code


def test_a_killed_follow_equals_a_report(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL comes between two tables, and a crash after the last one but before the page. The
    tables are compared row by row."""
    first, second, third = pieces()
    grows, output = tmp_path / "grows", tmp_path / "followed"
    grows.mkdir()
    (grows / "events").write_bytes(first)
    (tmp_path / "second").write_bytes(second)
    run = [sys.executable, "-c", KILLED_WHILE_WRITING, f"{grows}", f"{output}"]
    run.append(str(tmp_path / "second"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(run, check=False, timeout=CHILD_S_MAX, env=environment)
    assert child.returncode == -signal.SIGKILL
    assert (grows / "events").read_bytes() == first + second

    def crash(*_given: object) -> None:
        raise Crashed

    with monkeypatch.context() as patch:
        patch.setattr(command, "write_report", crash)
        with suppress(Crashed):
            follow(grows, output)
    with (grows / "events").open("ab") as file:
        file.write(third)
    assert follow_while_growing(grows, output, []) == 128 + signal.SIGTERM

    assert not differences(spark, output, grows, tmp_path / "at-once")
    for name in ("ownership", "unread"):
        assert not table(spark, output, name).isEmpty(), name


def test_a_signal_within_a_round_ends_it_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run ends within a second, as if it had been killed: the next run takes the round in."""
    ended = threading.Event()

    def interrupt(*_given: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
        ended.set()

    (tmp_path / "events").write_text("{}\n")
    monkeypatch.setattr(Following, "take_in", interrupt)
    assert follow(tmp_path / "events", tmp_path / "out") == 128 + signal.SIGTERM
    assert not ended.is_set()
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        f"groupferry: stopped; {tmp_path / 'out'} is that of the last round\n",
    )
