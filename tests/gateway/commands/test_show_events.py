"""`groupferry events` prints events for people and scripts."""

import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.interface.records import RemovalCause
from gateway import cli
from gateway.events.gateway_events import UpstreamLost
from gateway.events.member_events import MemberLeft
from tests.support.event_lines import event_line


def fill(folder: Path, *lines: str) -> None:
    """Write these lines like a gateway."""
    (folder / "events").mkdir()
    (folder / "events" / "events-1.jsonl").write_text("".join(lines))


def test_events_are_readable_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line has time, group and a sentence; with --details name and fields."""
    lost = UpstreamLost(reason="no broker answers", next_retry_s=1.5)
    fill(tmp_path, event_line(1), event_line(1, group_id=None, process_id="p", event=lost))
    assert cli.main(["events", "--state-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2027-01-15 08:00:00.123Z  orders  m1 left",
        "2027-01-15 08:00:00.123Z  -  no broker of the cluster answers: no broker answers; check"
        " the cluster and the network, trying again in 2 s",
    ]
    assert cli.main(["events", "--details", "--state-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2027-01-15 08:00:00.123Z  orders  member_left  member_id=m1  cause=left",
        '2027-01-15 08:00:00.123Z  -  upstream_lost  reason="no broker answers"  next_retry_s=1.5',
    ]


def test_names_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clients choose their ids and group ids."""
    event = MemberLeft(member_id="\x1b[2J\x9b2J\u202e a=b", cause=RemovalCause.LEFT)
    fill(tmp_path, event_line(1, group_id="\x1b]0;x\x07\n", event=event))
    assert cli.main(["events", "--state-dir", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.isprintable()
    assert line.isascii()


def test_a_groups_events_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines are unchanged, without other groups' lines and repeats."""
    fill(tmp_path, event_line(1), event_line(1, group_id="other"), event_line(1), event_line(2))
    assert cli.main(["events", "--state-dir", str(tmp_path), "--group", "orders", "--json"]) == 0
    assert capsys.readouterr().out == event_line(1) + event_line(2)


def test_an_invalid_line_is_reported_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest is printed."""
    fill(tmp_path, "nonsense\n", event_line(1))
    assert cli.main(["events", "--state-dir", str(tmp_path), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.out == event_line(1)
    assert printed.err.startswith("groupferry: events-1.jsonl line 1: ")
    assert len(printed.err.splitlines()) == 1


def test_a_folder_without_events_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is created there."""
    assert cli.main(["events", "--state-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"groupferry: there are no events in {tmp_path / 'events'}; see --state-dir\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """`groupferry events | head -1` succeeds."""
    fill(tmp_path, *(event_line(number) for number in range(1, 5_000)))
    program = "import sys; from gateway.cli import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", program, "events", "--state-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def test_the_events_of_all_processes_of_a_fleet_are_one_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gateway without processes may have used the folder before."""
    fill(tmp_path, event_line(1))
    for slot in range(2):
        (tmp_path / "slots" / str(slot)).mkdir(parents=True)
        fill(tmp_path / "slots" / str(slot), event_line(1, group_id=f"g{slot}"))
    assert cli.main(["events", "--state-dir", str(tmp_path), "--json"]) == 0
    expected = [event_line(1), event_line(1, group_id="g0"), event_line(1, group_id="g1")]
    assert capsys.readouterr().out == "".join(expected)
