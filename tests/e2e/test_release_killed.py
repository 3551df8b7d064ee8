"""A gateway that is killed at any step of a release: the next one continues with it.

The consumers come back in the cluster's group, and no partition has two owners.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from gateway.control.client import give
from gateway.control.messages import CommandRefused, ReleaseCommand
from gateway.demo.group_view import Protocol
from gateway.hosting.states import ReleaseStage as Stage
from tests.e2e.adopted_groups import LONG_SESSIONS
from tests.e2e.stopping_moves import STOPPED, Stop, program
from tests.support.clients import Client
from tests.support.group_client import fresh_group
from tests.support.group_stage import GroupStage, open_groups
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import on_release, with_new_protocol

LIMIT_S = 240
STOPS = (
    Stop(Stage.RECALLING, is_sent=True),
    Stop(Stage.ANNOUNCING, is_sent=False),
    Stop(Stage.ANNOUNCING, is_sent=True),
    Stop(Stage.OPENING, is_sent=True),
    Stop(Stage.GATHERING, is_sent=True),
    Stop(Stage.LEAVING, is_sent=True),
    Stop(Stage.CONCLUDING, is_sent=False),
)
UNOPENED = [stop for stop in STOPS if stop.stage not in (Stage.OPENING, Stage.GATHERING)]
LATE_S = 4.0
"""How long native members stay away after the kill: shorter than their session."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]

CLIENT = Client(library="librdkafka")
COOPERATIVE = Client(library="librdkafka", assignor="cooperative-sticky")
NATIVE = Client(library="librdkafka", protocol="consumer")


async def try_to_release(folder: Path, group: GroupStage) -> None:
    """Release the group, unless the gateway ends first."""
    with contextlib.suppress(CommandRefused):
        await give(folder, ReleaseCommand(group_id=group.group))


@on_release("3.9")
async def test_a_gateway_that_is_killed_in_a_release_continues_with_it(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    await kill(kafka, STOPS, (CLIENT, CLIENT), tmp_path)


@with_new_protocol()
async def test_a_gateway_that_is_killed_in_the_release_of_a_mixed_group_continues_with_it(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Its anchor leaves without opening. The native members come last, and still are the first in
    the cluster: it does not convert a group of cooperative librdkafka consumers."""
    await kill(kafka, UNOPENED, (NATIVE, COOPERATIVE), tmp_path)


async def kill(
    kafka: KafkaCluster, at: Sequence[Stop], clients: tuple[Client, Client], tmp_path: Path
) -> None:
    """One group for each step, and one kill for all of them."""
    stops = {fresh_group(f"killed-{number}"): stop for number, stop in enumerate(at)}
    protocol: Protocol = "consumer" if NATIVE in clients else "classic"
    async with open_groups(
        kafka, list(stops), tmp_path, program=program(stops), limit_s=LIMIT_S
    ) as groups:
        gateway = groups[0].gateway
        for group in groups:
            for name, client in zip("ab", clients, strict=True):
                flags = () if client is NATIVE else (LONG_SESSIONS,)
                await group.join(name, client, *flags)
        for group in groups:
            await group.wait_until_settled(protocol)
        async with trio.open_nursery() as nursery:
            for group in groups:
                nursery.start_soon(try_to_release, tmp_path, group)
            await gateway.until_event(STOPPED, len(groups))
            await gateway.kill()
        natives = [group.members["a"].child for group in groups if NATIVE in clients]
        for native in natives:
            native.pause()
        await gateway.start()
        if natives:
            await trio.sleep(LATE_S)
        for native in natives:
            native.resume()
        await gateway.until_event("group_released", len(groups))
        for group in groups:
            await group.wait_until_settled(protocol)
            await group.progress()
        assert {event["group_id"] for event in gateway.events("group_released")} == stops.keys()
        produced = await groups[0].stop_producer()
        for group in groups:
            await group.end_after(produced)
