"""Whole runs break no invariant, and a seed always produces the same transcript."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.fresh_seeds import FIRST_SEED_VARIABLE, first_fresh_seed
from tests.simulation.run import Outcome, simulate
from tests.simulation.sweep import failure

FIXED_SEEDS = 100
FRESH_SEEDS = 60
CHUNK = 10

PRINT_TRANSCRIPTS = """
from tests.simulation.run import Run
from tests.simulation import transcript
for seed in (1, 2, 3, 4):
    run = Run(seed)
    run.play()
    print(*transcript.tail(run.world, run.cluster, 4000), sep="\\n")
"""


@pytest.mark.simulation
@pytest.mark.parametrize("first_seed", range(0, FIXED_SEEDS, CHUNK))
def test_the_fixed_seeds_break_no_invariant(first_seed: int) -> None:
    """All invariants (rule 12.1) hold at every step. The output of a failure names the seed and the
    command that replays it."""
    play(first_seed)


@pytest.mark.simulation
@pytest.mark.parametrize("offset", range(0, FRESH_SEEDS, CHUNK))
def test_the_seeds_of_the_day_break_no_invariant(offset: int) -> None:
    """Each day plays new seeds."""
    play(first_fresh_seed() + offset)


def play(first_seed: int) -> None:
    """Play a chunk of seeds."""
    for seed in range(first_seed, first_seed + CHUNK):
        outcome = outcome_of(seed)
        assert outcome.invariant is None, failure(outcome)


@cache
def outcome_of(seed: int) -> Outcome:
    """What came of a seed."""
    return simulate(seed)


def test_the_seeds_of_another_day_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment variable sets the first seed. By default it depends on the date, and differs
    from all fixed seeds."""
    monkeypatch.delenv(FIRST_SEED_VARIABLE, raising=False)
    assert first_fresh_seed() > FIXED_SEEDS
    monkeypatch.setenv(FIRST_SEED_VARIABLE, "42")
    assert first_fresh_seed() == 42


@pytest.mark.simulation
def test_runs_exercise_the_group() -> None:
    """Some things happen in each seed, others in some seeds."""
    outcomes = [outcome_of(seed) for seed in range(24)]
    requests = [outcome.counts["requests"] for outcome in outcomes]
    assert sum(requests) / len(requests) > 150
    for name in (
        "commits",
        "crashes",
        "removed owners",
        "late requests",
        "stale ms",
        "takeovers",
        "batches in doubt",
        "errors instead of answers",
        "slots taken",
        "pauses",
        "logs taken",
        "anchors removed",
        "anchors without an answer",
        "commits without an answer",
        "commits refused by the cluster",
        "old fetches",
        "stale fetches",
    ):
        assert sum(outcome.counts.get(name, 0) for outcome in outcomes) > 0, name


@pytest.mark.simulation
def test_a_seed_has_the_same_transcript_in_every_process() -> None:
    """Every line is equal, whatever the hash seed."""
    path = os.pathsep.join(sys.path)
    transcripts = [
        subprocess.run(
            [sys.executable, "-c", PRINT_TRANSCRIPTS],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": path,
            },
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd=Path(__file__).parents[2],
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert len(transcripts[0]) > 10_000
    assert transcripts[0] == transcripts[1]


def test_any_exception_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error may be a bug of the engine or of a client. The outcome has its seed."""

    def broken(*_args: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("tests.simulation.run.settle", broken)
    outcome = simulate(1, tail_lines=5)
    assert isinstance(outcome, Outcome)
    assert outcome.invariant is not None
    assert "planted" in outcome.detail
    assert len(outcome.transcript) == 5
