"""The sweep over seeds, and its output."""

import subprocess
import sys

import pytest

from coordinator.simulation.run import Outcome, simulate
from gateway import cli
from gateway.simulate import failure, replay_command, sweep


def test_outcomes_are_in_the_order_of_the_seeds() -> None:
    """Several processes play them at the same time."""
    assert list(sweep(3, 5)) == [simulate(seed) for seed in range(3, 8)]


def test_a_sweep_without_violations_prints_its_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit status is 0."""
    assert cli.main(["simulate", "--seeds", "3", "--first-seed", "7"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("Nothing broke in 3 seeds, 7 to 9.\n")
    assert " requests" in told.out


def test_a_failing_seed_is_printed_with_its_replay_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output has transcript and invariant. The exit status is 1."""
    outcome = Outcome(
        seed=42, invariant="1: nothing", detail="here", transcript=("first", "second")
    )
    assert failure(outcome).splitlines() == [
        "first",
        "second",
        "",
        "Seed 42 breaks invariant 1: nothing",
        "here",
        "",
        "To replay it: groupferry simulate --seeds 1 --first-seed 42",
    ]


def test_the_printed_replay_command_runs() -> None:
    """It is one command."""
    words = replay_command(5).split()
    assert words[0] == "groupferry"
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *words[1:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Nothing broke in 1 seeds, 5 to 5.")


def test_a_failing_sweep_ends_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stops at the first failing seed."""
    outcomes = [Outcome(seed=1), Outcome(seed=2, invariant="1: nothing"), Outcome(seed=3)]
    monkeypatch.setattr("gateway.simulate.sweep", lambda *_args: (each for each in outcomes))
    assert cli.main(["simulate"]) == 1
    assert replay_command(2) in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--seeds", "0"], ["--first-seed", "-1"]])
def test_an_invalid_number_is_a_usage_error(arguments: list[str]) -> None:
    """The exit status is 2."""
    with pytest.raises(SystemExit) as end:
        cli.main(["simulate", *arguments])
    assert end.value.code == 2
