"""`groupferry demo --story` as users run it: the gateway is inserted and removed again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka_broker import FETCH_TIMEOUT_S
from tests.support.kafka_jars import kafka_jars
from tests.support.serve_process import PROGRAM

LIMIT_S = 300
UNDISTURBED = ("the group is adopted", "consumer-3 bootstraps again")

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]


@pytest.mark.parametrize("release", ["3.9", "4.3"])
def test_the_whole_story(release: str, tmp_path: Path) -> None:
    """Nothing is lost, no partition has two owners, and the step tells the cause of each rebalance
    that a consumer saw."""
    (tmp_path / "libs").symlink_to(kafka_jars(release))
    words = ["demo", "--story", f"--kafka-home={tmp_path}", "--log-level=error", "--json"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, (done.stderr, done.stdout)
    told = json.loads(done.stdout)
    assert (told["totals"]["lost"], told["totals"]["partitions_with_two_owners"]) == (0, 0)
    steps = {step["title"]: step for step in told["steps"]}
    assert [steps[title]["rebalanced"] for title in UNDISTURBED] == [[], []]
    assert len(steps["the group is released"]["rebalanced"]) == 3
