"""Groups of many libraries are adopted and released, while gateway and consumers are killed at
random moments. `library_loop.py` plays this for longer."""

from pathlib import Path

import pytest

from gateway.demo.ledger import Ledger, Process
from gateway.demo.reports import AssignedReport, RevokedReport
from tests.e2e.library_moves import (
    LIBRARIES,
    LibraryMoves,
    MoveResults,
    longest_unowned_s,
    summary_lines,
)
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster

LIMIT_S = 400
SEED, GROUPS, MOVES = 7, 2, 2


@pytest.fixture
def _all_libraries() -> None:
    """Skip the test unless each library can be started."""
    for client in LIBRARIES:
        client.program()


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)
@pytest.mark.usefixtures("_all_libraries")
async def test_groups_of_many_libraries_move_through_kills(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Nothing is lost, no partition is owned twice, and every move ends."""
    results = MoveResults()
    await LibraryMoves(kafka, tmp_path, SEED, GROUPS, results).play(MOVES)
    print(*summary_lines(results.moves), sep="\n")
    assert results.is_clean, (results.lost, results.owned_twice, results.stuck, results.broken)
    assert len(results.moves) == GROUPS * MOVES


def test_the_longest_time_without_an_owner_is_that_of_one_partition() -> None:
    """Time before and after the move does not count."""
    ledger = Ledger(2)
    first, second = (Process(member=name, incarnation=1) for name in "ab")
    ledger.record(first, AssignedReport(at_s=0.0, partitions=(0,)))
    ledger.record(second, AssignedReport(at_s=0.0, partitions=(1,)))
    ledger.record(first, RevokedReport(at_s=11.0, partitions=(0,)))
    ledger.record(second, AssignedReport(at_s=13.0, partitions=(0,)))
    assert longest_unowned_s(ledger, 10.0, 20.0) == 2.0
    assert longest_unowned_s(ledger, 10.0, 12.0) == 1.0
    assert longest_unowned_s(ledger, 13.5, 20.0) == 0.0
