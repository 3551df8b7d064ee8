"""A group with an assignor of its own (KIP-848, "Client Side Mode").

`GroupStage.settled` checks each step, and `GroupStage.end` the whole run: no record is lost, no
partition has two owners, and the cluster has all commits.
"""

from pathlib import Path

from tests.support.clients import Client
from tests.support.group_stage import open_group
from tests.support.matrix import NATIVE

WEIGHTED = Client(library="reference", protocol="consumer", assignor="weights=3")


async def test_a_gateway_without_client_side_assignors_ignores_them(tmp_path: Path) -> None:
    """By default they are off. The client shares its group with another one as any client does."""
    async with open_group(tmp_path) as group:
        await group.join("weighted", WEIGHTED)
        await group.join("native", NATIVE)
        await group.settled("consumer")
        await group.progress(50)
        assert group.shares() == {"weighted": 4, "native": 4}
        await group.leave("weighted")
        await group.settled("consumer")
        await group.end()
        assert group.ledger.delivered_again() == 0
