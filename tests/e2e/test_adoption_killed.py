"""A gateway that is killed at any step of an adoption leaves the old way or the new one.

The next process decides from its log and from the group in the cluster. The consumers continue, in
any case after an ordinary rebalance.
"""

import contextlib
from pathlib import Path

import pytest
import trio

from gateway.control.messages import CommandRefused
from gateway.hosting.states import AdoptionStage as Stage
from tests.e2e.adopted_groups import adopt, begin_in_cluster
from tests.e2e.stopping_moves import STOPPED, Stop, program
from tests.support.clients import Client
from tests.support.group_client import fresh_group
from tests.support.group_stage import GroupStage, open_groups
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import on_release

LIMIT_S = 200
UNDONE_FROM = (
    Stop(Stage.ANNOUNCING, is_sent=True),
    Stop(Stage.IMPERSONATING, is_sent=True),
    Stop(Stage.REJOINING, is_sent=True),
    Stop(Stage.RELEASING, is_sent=True),
    Stop(Stage.LOCKING, is_sent=True),
)
DONE_FROM = (
    Stop(Stage.ANCHORING, is_sent=True),
    Stop(Stage.HANDING_OVER, is_sent=False),
    Stop(Stage.HANDING_OVER, is_sent=True),
)
"""The log has the lock."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]

CLIENT = Client(library="librdkafka")
MEMBERS = {"a": CLIENT, "b": CLIENT}


async def try_to_adopt(folder: Path, group: GroupStage) -> None:
    """Adopt the group, unless the gateway ends first."""
    with contextlib.suppress(CommandRefused):
        await adopt(folder, group.group)


@on_release("3.9")
async def test_a_gateway_that_is_killed_in_an_adoption_finds_its_way(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """One group for each step, and one kill for all of them. From the lock on the adoption
    continues; before it, the group stays with the cluster."""
    stops = {fresh_group(f"killed-{n}"): stop for n, stop in enumerate((*UNDONE_FROM, *DONE_FROM))}
    async with open_groups(
        kafka, list(stops), tmp_path, program=program(stops), limit_s=LIMIT_S
    ) as groups:
        gateway = groups[0].gateway
        async with trio.open_nursery() as nursery:
            for group in groups:
                nursery.start_soon(begin_in_cluster, kafka, group, MEMBERS)
        for group in groups:
            await group.wait_until_settled("classic")
        async with trio.open_nursery() as nursery:
            for group in groups:
                nursery.start_soon(try_to_adopt, tmp_path, group)
            await gateway.until_event(STOPPED, len(groups))
            await gateway.kill()
        await gateway.start()
        for group in groups:
            await group.wait_until_settled("classic")
            await group.progress()
        adopted = {event["group_id"] for event in gateway.events("group_adopted")}
        undone = {event["group_id"] for event in gateway.events("adoption_undone")}
        assert adopted | undone == stops.keys()
        assert not adopted & undone
        assert {stops[group_id] for group_id in adopted} <= set(DONE_FROM)
        assert {Stop(Stage.ANCHORING, is_sent=True)} <= {stops[group_id] for group_id in adopted}
        produced = await groups[0].stop_producer()
        for group in groups:
            await group.end_after(produced)
