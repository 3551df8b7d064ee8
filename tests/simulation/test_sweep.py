"""The sweep over seeds, and its output."""

import mmap
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.simulation.__main__ import main
from tests.simulation.run import Outcome, Run, replay_command, simulate
from tests.simulation.sweep import WORKER_MEMORY_MIB_MAX, failure, run, sweep


def test_outcomes_are_in_the_order_of_the_seeds() -> None:
    """Several processes play them at the same time."""
    assert list(sweep(3, 5)) == [simulate(seed) for seed in range(3, 8)]


def test_a_sweep_without_violations_prints_its_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit status is 0."""
    assert main(["--seeds", "3", "--first-seed", "7"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Nothing broke in 3 seeds, 7 to 9.\n")
    assert " requests" in printed.out
    assert printed.out.endswith(" seeds per second of processor time\n")


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
        "To replay it: poe simulate --seeds 1 --first-seed 42",
    ]


def test_the_printed_replay_command_runs() -> None:
    """The printed text is one command."""
    poe, task, *words = replay_command(5).split()
    assert (poe, task) == ("poe", "simulate")
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *words],
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
    """The sweep stops at the first failing seed."""
    outcomes = [Outcome(seed=1), Outcome(seed=2, invariant="1: nothing"), Outcome(seed=3)]
    monkeypatch.setattr(
        "tests.simulation.sweep.sweep", lambda *_args: (outcome for outcome in outcomes)
    )
    assert main([]) == 1
    assert replay_command(2) in capsys.readouterr().out


def endless(_run: Run) -> None:
    while True:
        pass


def greedy(_run: Run) -> None:
    memory = []
    while True:
        memory.append(bytes(2**24))


@pytest.mark.parametrize(
    ("play", "error"), [(endless, "after 1 s of processor time"), (greedy, "MemoryError")]
)
def test_a_run_that_does_not_end_fails_its_seed(
    monkeypatch: pytest.MonkeyPatch, play: Callable[[Run], None], error: str
) -> None:
    """A looping seed takes neither the machine's processors nor its memory. The report shows the
    loop."""
    monkeypatch.setattr("tests.simulation.sweep.SEED_CPU_S_MAX", 1)
    monkeypatch.setattr("tests.simulation.run.Run.play", play)
    is_fine, report = run(7, 1)
    assert not is_fine
    assert f"in {play.__name__}" in report
    assert error in report
    assert replay_command(7) in report


def modest(_run: Run) -> None:
    assert len(bytes(2**26)) == 2**26


def test_the_memory_of_the_parent_process_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker process is a copy of its parent, which may have reserved more than the limit."""
    monkeypatch.setattr("tests.simulation.run.Run.play", modest)
    with mmap.mmap(-1, WORKER_MEMORY_MIB_MAX * 2**20):
        is_fine, report = run(7, 1)
    assert is_fine, report


def test_a_run_without_memory_for_a_traceback_fails_its_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report names the limit instead."""

    def run_out_of_memory(_seed: int) -> Outcome:
        raise MemoryError

    monkeypatch.setattr("tests.simulation.sweep.simulate", run_out_of_memory)
    is_fine, report = run(7, 1)
    assert not is_fine
    assert "2,048 MiB of memory" in report
    assert replay_command(7) in report


def test_a_killed_worker_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may kill it when the machine's memory is full."""
    monkeypatch.setattr("tests.simulation.sweep.simulate", lambda _seed: os._exit(9))
    assert run(7, 1) == (False, "A worker process was killed at seed 7 or soon after it.")


def test_a_long_sweep_prints_its_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The progress goes to stderr, apart from the report."""
    monkeypatch.setattr("tests.simulation.sweep.PROGRESS_INTERVAL_S", 0)
    assert main(["--seeds", "2"]) == 0
    assert capsys.readouterr().err.splitlines() == ["1 of 2 seeds", "2 of 2 seeds"]


@pytest.mark.parametrize("arguments", [["--seeds", "0"], ["--first-seed", "-1"]])
def test_an_invalid_number_is_a_usage_error(arguments: list[str]) -> None:
    """The exit status is 2."""
    with pytest.raises(SystemExit) as end:
        main([*arguments])
    assert end.value.code == 2
