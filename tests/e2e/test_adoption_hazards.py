"""Adoptions that operators and clusters make difficult: static members, careless commands, a
coordinator that moves, a second gateway.

`GroupStage.end_after` checks the clients' own reports: no record is lost, no partition had two
owners.
"""

import time
from pathlib import Path

import pytest
import trio

from gateway.control.messages import AdoptionAnswer
from gateway.hosting.adoptable import HOSTED_ALREADY
from gateway.hosting.states import AdoptionStage as Stage
from tests.e2e.adopted_groups import LONG_SESSIONS, adopt, begin_in_cluster, flags_of
from tests.e2e.stopping_moves import STOPPED, Stop, program
from tests.support.clients import Client
from tests.support.group_client import find_coordinator, fresh_group
from tests.support.group_stage import GroupStage, open_groups
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.promises import promise
from tests.support.serve_process import serving
from tests.support.until import until_answered

LIMIT_S = 240
CALM_S = 2.0
"""Longer than a heartbeat's interval and a commit's."""
DOWN_S = 4.0
"""Longer than the session of a broker."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S + LIMIT_S)]

CLIENT = Client(library="librdkafka")
JAVA = Client(library="java")
GO = Client(library="franz-go")
NATIVE = Client(library="librdkafka", protocol="consumer")
STATIC = ("--static", LONG_SESSIONS)


async def calm(group: GroupStage, since_s: float) -> None:
    """No partition has moved since, and no client was disturbed."""
    await trio.sleep(CALM_S)
    disturbance = group.ledger.disturbance(None, since_s, time.monotonic())
    promise((disturbance.partitions_moved, disturbance.members_disturbed) == (0, 0), group.troubles)


async def test_static_members_are_adopted_and_keep_their_places(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """A killed one is replaced immediately by the next process with its instance id. A group whose
    leader is static is refused, with its reason, and continues."""
    names = [fresh_group("static"), fresh_group("static-leader")]
    async with open_groups(kafka, names, tmp_path, limit_s=LIMIT_S) as groups:
        group, refused = groups
        await begin_in_cluster(kafka, group, {"a": CLIENT})
        await begin_in_cluster(kafka, refused, {"a": CLIENT}, *STATIC)
        await group.join("b", JAVA, *STATIC)
        await group.join("c", CLIENT, *STATIC)
        await refused.join("b", CLIENT, LONG_SESSIONS)
        for stage in groups:
            await stage.wait_until_settled("classic")
            await stage.progress()
        since_s = time.monotonic()
        outcome = await adopt(tmp_path, refused.group)
        (reason,) = outcome.reasons
        assert reason.startswith("a at ")
        assert "is the leader and a static member" in reason
        outcome = await adopt(tmp_path, group.group)
        assert outcome.is_adopted, outcome.reasons
        for stage in groups:
            await calm(stage, since_s)
        assert group.troubles == refused.troubles == []
        for name, client in (("b", JAVA), ("c", CLIENT), ("c", NATIVE)):
            await group.kill(name)
            await group.join(name, client, "--static", *(() if client is NATIVE else STATIC[1:]))
            await group.wait_until_settled(
                "consumer" if NATIVE in {m.client for m in group.members.values()} else "classic"
            )
        assert group.gateway.events("member_fenced") == []
        produced = await group.stop_producer()
        for stage in groups:
            await stage.end_after(produced)


async def test_a_careless_operator_does_no_harm(kafka: KafkaCluster, tmp_path: Path) -> None:
    """In one group the command is given three times at the same time. In the others a consumer is
    pointed back at the cluster while the group is adopted."""
    names = [fresh_group(f"careless-{n}") for n in range(4)]
    async with open_groups(kafka, names, tmp_path, limit_s=LIMIT_S) as groups:
        for group in groups:
            await begin_in_cluster(kafka, group, {"a": CLIENT, "b": CLIENT})
        for group in groups:
            await group.wait_until_settled("classic")
        twice, *pointed_back = groups
        outcomes: list[AdoptionAnswer] = []

        async def command(group: GroupStage, after_s: float = 0) -> None:
            await trio.sleep(after_s)
            outcomes.append(await adopt(tmp_path, group.group))

        since_s = time.monotonic()
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(command, twice, number * 0.05)
        reasons = {reason for outcome in outcomes for reason in outcome.reasons}
        assert reasons <= {HOSTED_ALREADY}
        assert any(outcome.is_adopted for outcome in outcomes)
        assert len(twice.gateway.events("group_adopted")) == 1
        await calm(twice, since_s)
        for number, group in enumerate(pointed_back):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(command, group, number * 0.03)
                await group.leave("b")
                await group.join("b", CLIENT, LONG_SESSIONS, beside=True)
        await trio.sleep(CALM_S)
        for group in pointed_back:
            await group.leave("b")
            await group.join("b", CLIENT, LONG_SESSIONS)
            await group.wait_until_settled("classic")
            await group.progress()
        produced = await twice.stop_producer()
        for group in groups:
            await group.end_after(produced)


@pytest.mark.matrix
@pytest.mark.parametrize("pause_s", [0, 10])
async def test_consumers_move_without_a_pause_or_with_a_long_one(
    kafka: KafkaCluster, tmp_path: Path, pause_s: float
) -> None:
    """The test does not wait for the group to settle, and the command is repeated until the group
    is hosted. Without a pause an adoption may not be needed: the group is empty for a moment."""
    names = [fresh_group("paused")]
    async with open_groups(kafka, names, tmp_path, limit_s=LIMIT_S) as groups:
        (group,) = groups
        clients = {"a": CLIENT, "b": JAVA, "c": GO}
        for name, client in clients.items():
            await group.join(name, client, *flags_of(client), beside=True)
        await group.wait_until_settled("classic")
        for name, client in clients.items():
            await group.leave(name)
            await group.join(name, client, *flags_of(client))
            await trio.sleep(pause_s)
        outcome = await until_answered(
            lambda: adopt(tmp_path, group.group),
            lambda outcome: outcome.is_adopted or outcome.reasons == (HOSTED_ALREADY,),
        )
        print(f"held for {outcome.held_ms} ms")
        await group.wait_until_settled("classic")
        await calm(group, time.monotonic())
        await group.end_after(await group.stop_producer())


async def test_the_coordinator_moves_during_an_adoption(
    three_brokers: KafkaCluster, tmp_path: Path
) -> None:
    """The coordinator hangs before the first request of a step arrives, and is killed. Another
    broker then loads the group as it was last stored: without joins that were waiting. Until the
    group is handed
    over, the adoption is undone; from then on it goes forward."""
    stages = (Stage.LOCKING, Stage.ANCHORING, Stage.HANDING_OVER)
    stops = {
        await name_at(three_brokers, node_id, f"moved-{stage}"): Stop(stage, True, broker.pid)
        for stage, (node_id, broker) in zip(stages, three_brokers.brokers.items(), strict=True)
    }
    async with open_groups(
        three_brokers, list(stops), tmp_path, program=program(stops), limit_s=LIMIT_S
    ) as groups:
        gateway = groups[0].gateway
        brokers = three_brokers.brokers.values()
        for number, (group, broker) in enumerate(zip(groups, brokers, strict=True)):
            await begin_in_cluster(three_brokers, group, {"a": CLIENT, "b": CLIENT})
            await group.wait_until_settled("classic")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(adopt, tmp_path, group.group)
                await gateway.until_event(STOPPED, number + 1)
                await broker.kill()
                await trio.sleep(DOWN_S)
                await three_brokers.start()
            await group.wait_until_settled("classic")
            await group.progress()
            is_adopted = stops[group.group].stage is Stage.HANDING_OVER
            adopted = {event["group_id"] for event in gateway.events("group_adopted")}
            assert (group.group in adopted) == is_adopted
        produced = await groups[0].stop_producer()
        for group in groups:
            await group.end_after(produced)


async def name_at(kafka: KafkaCluster, node_id: int, start: str) -> str:
    """The id of a new group of this coordinator."""
    while True:
        name = fresh_group(start)
        if (await find_coordinator(kafka.addresses[0], name)).node_id == node_id:
            return name


async def test_two_gateways_with_logs_of_their_own_never_both_have_a_group(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Both know that they relay heartbeats of members, and both are told to adopt the group."""
    names = [fresh_group("rivals")]
    one, two = tmp_path / "one", tmp_path / "two"
    async with (
        open_groups(kafka, names, one, limit_s=LIMIT_S) as groups,
        serving(kafka.bootstrap_servers, two) as other,
    ):
        (group,) = groups
        await begin_in_cluster(kafka, group, {"a": CLIENT, "b": CLIENT}, behind={"b": other})
        await group.wait_until_settled("classic")
        outcomes: list[AdoptionAnswer] = []

        async def command(folder: Path) -> None:
            outcomes.append(await adopt(folder, group.group))

        since_s = time.monotonic()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(command, one)
            nursery.start_soon(command, two)
        assert not any(outcome.is_adopted for outcome in outcomes)
        await calm(group, since_s)
        await group.leave("b")
        await group.join("b", CLIENT, LONG_SESSIONS)
        await group.wait_until_settled("classic")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(command, one)
            nursery.start_soon(command, two)
        assert sum(outcome.is_adopted for outcome in outcomes) == 1
        assert len(group.gateway.events("group_adopted")) == 1
        await group.wait_until_settled("classic")
        await group.end_after(await group.stop_producer())
