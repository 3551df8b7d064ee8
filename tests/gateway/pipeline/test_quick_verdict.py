"""`groupferry verdict`: its output, its exit status, and its limit."""

import bz2
import gzip
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.commands import dispatch
from gateway.pipeline import quick_verdict
from tests.gateway.pipeline.planted_faults import SOUND, plant
from tests.gateway.pipeline.stories import play_story


def test_planted_faults_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first line is the verdict, the second how much it saw."""
    plant(tmp_path / "events")
    assert dispatch.run(["verdict", f"{tmp_path / 'events'}"]) == 1
    printed = capsys.readouterr().out
    first, second = printed.splitlines()[:2]
    assert first == (
        "NOT SAFE: 1 partition owned twice (group faulty: t-0);"
        " 1 lost commit (group told_40: t-0); 1 commit that went back (group faulty: t-1)"
    )
    assert second.startswith("4 of 4 hand-overs compared") or "hand-overs compared" in second
    for words in (
        "1 partition owned twice:\n  group faulty: t-0: b was granted it while a had it",
        "group told_40: t-0: 100 was committed by a, b fetched 40",
        "this groupferry does not know partitions_blessed",
        "lines of the group's sequence are missing: 5 to 7",
        "lines could not be read:\n",
    ):
        assert words in printed


def test_sound_events_are_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path / "events")
    for name in ("planted", "garbage"):
        (tmp_path / "events" / name).unlink()
    assert dispatch.run(["verdict", f"{tmp_path / 'events'}"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "how"), [("events.gz", gzip.compress), ("events.bz2", bz2.compress)]
)
def test_packed_files_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, how: Callable[[bytes], bytes]
) -> None:
    (tmp_path / name).write_bytes(how("\n".join(play_story(SOUND).lines).encode()))
    assert dispatch.run(["verdict", f"{tmp_path}"]) == 0
    assert capsys.readouterr().out.startswith("SAFE\n")


def test_an_unknown_compression_is_not_proven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path / "events")
    for name in ("planted", "garbage"):
        (tmp_path / "events" / name).unlink()
    (tmp_path / "events" / "more.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(range(40)))
    assert dispatch.run(["verdict", f"{tmp_path / 'events'}"]) == 1
    assert capsys.readouterr().out.startswith("NOT PROVEN: ")


def test_a_byte_order_mark_belongs_to_no_line(tmp_path: Path) -> None:
    """Spark drops it too. Otherwise the first event would be missing."""
    plant(tmp_path / "events")
    sound = tmp_path / "events" / "sound"
    verdict = quick_verdict.quick_verdict([str(sound)])
    sound.write_bytes(BOM_UTF8 + sound.read_bytes())
    assert quick_verdict.quick_verdict([str(sound)]) == verdict


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nothing", "no file in"), ("events.gz", "cannot read")],
)
def test_an_impossible_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    (tmp_path / "events.gz").write_bytes(b"no gzip")
    assert dispatch.run(["verdict", f"{tmp_path / name}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


def test_too_much_for_memory_is_left_to_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sizes of the files decide, before anything is read."""
    monkeypatch.setattr(quick_verdict, "BYTES_MAX", 2 << 20)
    with (tmp_path / "events").open("wb") as file:
        file.truncate(3 << 20)
    assert dispatch.run(["verdict", f"{tmp_path}"]) == 1
    assert capsys.readouterr().err.endswith(
        "the events are more than 2 MiB: use groupferry report\n"
    )
