"""The commands: valid combinations of options, exit status, and one line per failure."""

from pathlib import Path

import pytest

from gateway import commands
from gateway.arguments import SEED_MAX

FAILED, WRONG_CALL = 1, 2


def told(capsys: pytest.CaptureFixture[str], status: int, *arguments: str) -> str:
    """The error line of a failed command."""
    assert commands.run(arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("groupferry: ")
    return line


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ("demo", "--rate", "1001", "--partitions", "1"),
            "--rate: at most 1000 for 1 partitions",
        ),
        (("demo", "--prefix", "mine"), "--prefix: works only with --upstream"),
        (("report", "--output=r"), "nothing to report on"),
        (("report", "--output=r", "--events-topic=events"), "needs --upstream"),
        (("report", "--output=r", "in", "--upstream=kafka:9092"), "needs --events-topic"),
        (
            ("report", "--output=r", "in", "--follow", "--check"),
            "--check: does not work with --follow",
        ),
        (
            ("simulate", "--seeds=2", f"--first-seed={SEED_MAX}"),
            f"the last of 2 seeds would be above {SEED_MAX}",
        ),
    ],
)
def test_incompatible_options_are_a_usage_error(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], why: str
) -> None:
    """The check precedes everything else, above all the start of Spark."""
    assert why in told(capsys, WRONG_CALL, *arguments)


def test_a_demo_needs_a_new_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Files of an earlier run would count as those of the same cluster."""
    (tmp_path / "lock").touch()
    line = told(capsys, WRONG_CALL, "demo", f"--state-dir={tmp_path}")
    assert line.endswith(f"{tmp_path} is not empty; give a new folder")
    line = told(capsys, WRONG_CALL, "demo", f"--state-dir={tmp_path / 'lock'}")
    assert line.endswith("Not a directory")


@pytest.mark.parametrize(("command", "what"), [("state", "no state log"), ("events", "no events")])
def test_a_folder_without_a_gateway_is_a_failure_with_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, what: str
) -> None:
    """The line also names the flag for the folder."""
    line = told(capsys, FAILED, command, f"--state-dir={tmp_path}")
    assert what in line
    assert f"{tmp_path}" in line
    assert "see --state-dir" in line


def test_a_simulation_without_violations_succeeds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its report is on stdout."""
    assert commands.run(["simulate", "--seeds=1", "--first-seed=1"]) == 0
    out, err = capsys.readouterr()
    assert "1" in out
    assert err == ""


def test_an_error_line_has_no_control_characters(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An external name must not control the terminal."""
    line = told(capsys, FAILED, "state", f"--state-dir={tmp_path}/\x1b[2J")
    assert "\x1b" not in line
