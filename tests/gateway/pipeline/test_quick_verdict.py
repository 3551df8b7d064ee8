"""`groupferry verdict`: its output, its exit status, and its limit."""

from codecs import BOM_UTF8
from pathlib import Path

import pytest

from gateway.commands import dispatch
from gateway.pipeline import quick_verdict
from tests.support.planted_faults import plant


def test_planted_faults_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that are no events are counted; they do not stop the run."""
    plant(tmp_path / "events")
    assert dispatch.run(["verdict", f"{tmp_path / 'events'}"]) == 1
    said = capsys.readouterr().out
    for words in (
        "1 partition owned twice",
        "1 non-monotonic commit",
        '1 lost commit:\n  group "told 40": t-0: 100 was committed',
        "1 gap in a sequence",
        "1 event with two versions",
        "1 event that could not be read:\n  group unreadable: ",
        "partitions_assigned of schema version 2 is not known",
        "lines could not be read\n",
    ):
        assert words in said


def test_sound_events_are_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside files without a group."""
    plant(tmp_path / "events")
    (tmp_path / "events" / "planted").unlink()
    assert dispatch.run(["verdict", f"{tmp_path / 'events'}"]) == 0, capsys.readouterr().out


def test_a_byte_order_mark_belongs_to_no_line(tmp_path: Path) -> None:
    """Spark drops it too. Otherwise the first event would be missing."""
    plant(tmp_path / "events")
    sound = tmp_path / "events" / "sound"
    verdict = quick_verdict.quick_verdict([str(sound)])
    sound.write_bytes(BOM_UTF8 + sound.read_bytes())
    assert quick_verdict.quick_verdict([str(sound)]) == verdict


@pytest.mark.parametrize(
    ("name", "why"),
    [("nothing", "no file in"), ("events.gz", "is compressed: use groupferry report")],
)
def test_an_impossible_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, why: str
) -> None:
    (tmp_path / "events.gz").touch()
    assert dispatch.run(["verdict", f"{tmp_path / name}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line


def test_too_much_for_memory_is_left_to_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sizes of the files decide, before anything is read."""
    monkeypatch.setattr(quick_verdict, "BYTES_MAX", 2 << 20)
    with (tmp_path / "events").open("wb") as file:
        file.truncate(3 << 20)
    assert dispatch.run(["verdict", f"{tmp_path}"]) == 1
    assert capsys.readouterr().err.endswith(
        "3 MiB of events are more than 2 MiB: use groupferry report\n"
    )
