"""The fleet of consumers: one process per member at a time, come what may."""

import os
import signal

import trio

from gateway.demo.fleet import Fleet
from gateway.demo.ledger import Ledger
from tests.support.demo_stage import PARTITIONS, TOPIC, open_stage


async def test_the_fleet_replaces_members_and_restarts_killed_ones() -> None:
    """One process per member at a time; an unexpected end is counted, an ordered one is not."""
    ledger = Ledger(PARTITIONS)
    everywhere = {partition: {"c-1"} for partition in range(PARTITIONS)}
    nowhere: dict[int, set[str]] = {partition: set() for partition in range(PARTITIONS)}

    async def until_owners(wanted: dict[int, set[str]]) -> None:
        while ledger.owners() != wanted:  # noqa: ASYNC110  (the ledger is plain data)
            await trio.sleep(0.02)

    async with open_stage() as at:
        arguments = [f"--bootstrap={at.bootstrap}", f"--topic={TOPIC}"]
        fleet = Fleet(["c-1"], [*arguments, "--group=g", "--assignor=range"], ledger)
        fleet.wanted["c-1"] = "consumer"
        at.nursery.start_soon(fleet.run)
        await until_owners(everywhere)
        await fleet.replace("c-1", "consumer")
        assert ledger.owners() == nowhere
        await until_owners(everywhere)
        assert fleet.unexpected_ends == 0
        killed = fleet.pid("c-1")
        os.kill(killed, signal.SIGKILL)
        await until_owners(nowhere)
        assert fleet.unexpected_ends == 1
        while fleet.pid("c-1") == killed:  # noqa: ASYNC110  (so is the fleet)
            await trio.sleep(0.02)
        await fleet.close()
        assert ledger.owners() == nowhere
    assert fleet.unexpected_ends == 1
    assert ledger.owned_twice() == set()
