"""The fleet of consumers runs one process per member at a time."""

import os
import signal

from gateway.demo.fleet import Fleet
from gateway.demo.ledger import Ledger
from tests.support.demo_stage import PARTITIONS, TOPIC, open_stage
from tests.support.until import until


async def test_the_fleet_replaces_members_and_restarts_killed_ones() -> None:
    """Unexpected ends are counted, requested ones are not."""
    ledger = Ledger(PARTITIONS)
    everywhere = {partition: {"c-1"} for partition in range(PARTITIONS)}
    nowhere: dict[int, set[str]] = {partition: set() for partition in range(PARTITIONS)}

    async with open_stage() as at:
        arguments = [f"--topic={TOPIC}", "--group=g", "--assignor=range"]
        fleet = Fleet(["c-1"], arguments, ledger, at.bootstrap)
        fleet.wanted["c-1"] = "consumer"
        at.nursery.start_soon(fleet.run)
        await until(lambda: ledger.owners() == everywhere)
        await fleet.replace("c-1", "consumer")
        assert ledger.owners() == nowhere
        await until(lambda: ledger.owners() == everywhere)
        assert fleet.unexpected_ends == 0
        killed = fleet.pid("c-1")
        os.kill(killed, signal.SIGKILL)
        await until(lambda: fleet.unexpected_ends == 1)
        assert ledger.owners() == nowhere  # a second passes before the next process starts
        await until(lambda: fleet.pid("c-1") != killed)
        await fleet.close()
        assert ledger.owners() == nowhere
    assert fleet.unexpected_ends == 1
    assert ledger.owned_twice() == set()
