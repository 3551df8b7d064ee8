"""Whole runs: nothing breaks, and a seed always tells the same story."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.simulation.run import Outcome, simulate
from gateway.simulate import failure

SEEDS = 200
CHUNK = 10

PRINT_STORIES = """
from coordinator.simulation.run import Run
from coordinator.simulation import story
for seed in (1, 2, 3, 4):
    run = Run(seed)
    run.play()
    print(*story.tail(run.world, run.cluster, 4000), sep="\\n")
"""


@pytest.mark.simulation
@pytest.mark.parametrize("first_seed", range(0, SEEDS, CHUNK))
def test_nothing_breaks(first_seed: int) -> None:
    """Every invariant (rule 12.1), at every step; the output names the seed and how to replay."""
    for seed in range(first_seed, first_seed + CHUNK):
        outcome = simulate(seed)
        assert outcome.invariant is None, failure(outcome)


@pytest.mark.simulation
def test_a_run_is_worth_its_time() -> None:
    """Much happens, in each seed or at least in some."""
    outcomes = [simulate(seed) for seed in range(12)]
    requests = [outcome.counts["requests"] for outcome in outcomes]
    assert sum(requests) / len(requests) > 150
    for name in ("commits", "crashes", "removed owners", "late requests", "stale ms"):
        assert sum(outcome.counts.get(name, 0) for outcome in outcomes) > 0, name


@pytest.mark.simulation
def test_a_seed_tells_the_same_story_in_every_process() -> None:
    """Line by line, whatever the hashes of strings are."""
    path = os.pathsep.join(sys.path)
    stories = [
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
    assert len(stories[0]) > 10_000
    assert stories[0] == stories[1]


def test_whatever_is_raised_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of the engine or of a client: the seed is what counts."""

    def broken(*_args: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("coordinator.simulation.run.settle", broken)
    outcome = simulate(1, tail_lines=5)
    assert isinstance(outcome, Outcome)
    assert outcome.invariant is not None
    assert "planted" in outcome.detail
    assert len(outcome.story) == 5
