"""Whole runs: nothing breaks, and a seed always tells the same transcript."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.simulation.run import Outcome, simulate
from gateway.simulate import failure
from tests.coordinator.simulation.fresh_seeds import FIRST_SEED_VARIABLE, first_fresh_seed

FIXED_SEEDS = 120
FRESH_SEEDS = 80
CHUNK = 10

PRINT_STORIES = """
from coordinator.simulation.run import Run
from coordinator.simulation import transcript
for seed in (1, 2, 3, 4):
    run = Run(seed)
    run.play()
    print(*transcript.tail(run.world, run.cluster, 4000), sep="\\n")
"""


@pytest.mark.simulation
@pytest.mark.parametrize("first_seed", range(0, FIXED_SEEDS, CHUNK))
def test_nothing_breaks(first_seed: int) -> None:
    """Every invariant (rule 12.1), at every step; the output names the seed and how to replay."""
    play(first_seed)


@pytest.mark.simulation
@pytest.mark.parametrize("offset", range(0, FRESH_SEEDS, CHUNK))
def test_nothing_breaks_today(offset: int) -> None:
    """The same, with seeds of the day: what no run has seen before, some run sees in time."""
    play(first_fresh_seed() + offset)


def play(first_seed: int) -> None:
    """A chunk of seeds."""
    for seed in range(first_seed, first_seed + CHUNK):
        outcome = simulate(seed)
        assert outcome.invariant is None, failure(outcome)


def test_the_seeds_of_another_day_can_be_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the environment; otherwise the date says which, and no fixed seed is among them."""
    monkeypatch.delenv(FIRST_SEED_VARIABLE, raising=False)
    assert first_fresh_seed() > FIXED_SEEDS
    monkeypatch.setenv(FIRST_SEED_VARIABLE, "42")
    assert first_fresh_seed() == 42


@pytest.mark.simulation
def test_a_run_is_worth_its_time() -> None:
    """Much happens, in each seed or at least in some."""
    outcomes = [simulate(seed) for seed in range(24)]
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
        "places taken",
        "renewals",
    ):
        assert sum(outcome.counts.get(name, 0) for outcome in outcomes) > 0, name


@pytest.mark.simulation
def test_a_seed_tells_the_same_story_in_every_process() -> None:
    """Line by line, whatever the hashes of strings are."""
    path = os.pathsep.join(sys.path)
    transcripts = [
        subprocess.run(
            [sys.executable, "-c", PRINT_STORIES],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": path,
            },
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd=Path(__file__).parents[3],
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert len(transcripts[0]) > 10_000
    assert transcripts[0] == transcripts[1]


def test_whatever_is_raised_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of the engine or of a client: the seed is what counts."""

    def broken(*_args: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("coordinator.simulation.run.settle", broken)
    outcome = simulate(1, tail_lines=5)
    assert isinstance(outcome, Outcome)
    assert outcome.invariant is not None
    assert "planted" in outcome.detail
    assert len(outcome.transcript) == 5
