"""The shards of a fleet in a real cluster: each has one writer at a time."""

import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from confluent_kafka import Producer
from structlog.testing import capture_logs

from coordinator.interface.records import TargetAssignmentMetadata
from gateway.cluster.access import PLAIN_ACCESS
from gateway.cluster.broker_connection import BrokerConnection
from gateway.fleet.member import FleetMember, shard_of
from gateway.state_log.kafka import kafka_log, shards
from gateway.state_log.kafka.content import (
    LOG_ID_KEY,
    LOG_OWNER_KEY,
    LOG_SHARD_KEY,
    RUNS_PER_CLAIM,
    owner_entry,
)
from gateway.state_log.kafka.kafka_log import KafkaLog, open_kafka_log
from gateway.state_log.kafka.lease import LEASE_MS
from gateway.state_log.kafka.shards import (
    LEAVE_TIMEOUT_S,
    count_shards,
    find_writers,
    open_partitions,
)
from gateway.state_log.kafka.topic import make_or_check
from gateway.state_log.kafka.transactions import TransactionalWriter, write_at_once
from gateway.state_log.log import StateLogError, StateLogTaken, StateLogUnusable
from gateway.state_log.sharded import ShardedLog
from kafka_codecs.state_records import LogOwnerValue
from tests.gateway.state_log.kafka.kafka_fencing import fence
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.until import until, until_logged

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

LIMIT_S = 60
SHARDS = 4
GROUPS = [
    next(name for name in map("group-{}".format, range(99)) if shard_of(name, SHARDS) == shard)
    for shard in range(SHARDS)
]
"""A group of each shard."""


def epoch(number: int) -> TargetAssignmentMetadata:
    """A record that differs for each number."""
    return TargetAssignmentMetadata(epoch=number)


@asynccontextmanager
async def open_shards(
    cluster: KafkaCluster, topic: str, slot: int = 0, *, log_id: str | None = None, run_id: int = 0
) -> AsyncIterator[ShardedLog]:
    """The log of one process of two; the first claims it, unless it is told which it is."""
    member = FleetMember(slot=slot, slots=2, shards=SHARDS)
    async with open_partitions(
        cluster.addresses,
        topic,
        PLAIN_ACCESS,
        member,
        member.own_shards,
        cluster_id=None,
        log_id=log_id,
        run_id=run_id,
    ) as log:
        yield log


async def test_a_shard_goes_from_one_process_to_another(kafka: KafkaCluster) -> None:
    """Its groups go with it, under the id of the whole log. A group of another shard is refused."""
    with trio.fail_after(LIMIT_S):
        async with AsyncExitStack() as resources:
            first = await resources.enter_async_context(open_shards(kafka, "shards-move"))
            second = await resources.enter_async_context(
                open_shards(kafka, "shards-move", 1, log_id=first.id, run_id=first.run_id + 1)
            )
            assert first.id == second.id != ""
            assert first.run_id % RUNS_PER_CLAIM == 0
            for shard, log in enumerate((first, second, first, second)):
                await log.append(GROUPS[shard], [epoch(shard)])
                assert log.may_answer_for(GROUPS[shard])
            with pytest.raises(StateLogError):
                await first.append(GROUPS[1], [epoch(7)])
            assert not first.may_answer_for(GROUPS[1])  # another gateway may have taken it
            await second.close_shard(1)
            taken = await first.open_shard(1)
            assert await taken.read(GROUPS[1]) == (epoch(1),)
            await first.append(GROUPS[1], [epoch(9)])
            assert await first.read(GROUPS[1]) == (epoch(9),)
            assert second.may_answer


async def test_a_second_owner_of_a_shard_is_fenced_by_the_epoch(kafka: KafkaCluster) -> None:
    """The first owner is fenced although it does not know of the loss. Its other shards continue
    until it ends."""

    async def run_first(task_status: trio.TaskStatus[ShardedLog]) -> None:
        with pytest.RaisesGroup(pytest.RaisesExc(StateLogTaken, match=str(os.getpid()))):
            async with open_shards(kafka, "shards-fenced") as log:
                task_status.started(log)
                await trio.sleep_forever()

    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            first = await nursery.start(run_first)
            await first.append(GROUPS[2], [epoch(1)])
            async with open_shards(
                kafka, "shards-fenced", 1, log_id=first.id, run_id=first.run_id + 1
            ) as second:
                await second.open_shard(2)
                with pytest.raises(StateLogError):
                    await first.append(GROUPS[2], [epoch(2)])
                await second.append(GROUPS[2], [epoch(3)])
                await trio.sleep(LEASE_MS / 1000)
                assert not first.may_answer_for(GROUPS[2])
                assert second.may_answer_for(GROUPS[2])
                assert await second.read(GROUPS[2]) == (epoch(3),)


async def test_a_later_gateway_continues_with_the_shards(kafka: KafkaCluster) -> None:
    """The number of processes may differ. The runs of the later gateway are greater than those that
    the former one has counted on."""
    with trio.fail_after(LIMIT_S):
        async with open_shards(kafka, "shards-later") as first:
            await first.append(GROUPS[2], [epoch(1)])
            log_id, last_run = first.id, first.run_id + RUNS_PER_CLAIM - 1
        assert await shard_count(kafka, "shards-later") == SHARDS
        alone = FleetMember(slot=0, slots=1, shards=SHARDS)
        async with open_partitions(
            *(kafka.addresses, "shards-later", PLAIN_ACCESS, alone, alone.own_shards),
            cluster_id=None,
            needs_all=True,
        ) as later:
            assert later.id == log_id
            assert later.run_id > last_run
            assert later.open_shards == set(range(SHARDS))
            assert await later.read(GROUPS[2]) == (epoch(1),)


async def test_a_former_gateway_takes_no_shard_back(kafka: KafkaCluster) -> None:
    """A process of it may be told to open one when another gateway has claimed all. Both would
    end."""
    with trio.fail_after(LIMIT_S):
        async with open_shards(kafka, "shards-back") as former:
            log_id, run_id = former.id, former.run_id + 1
        async with open_shards(kafka, "shards-back") as later:
            await later.open_shard(1)
            with pytest.RaisesGroup(pytest.RaisesExc(StateLogTaken), flatten_subgroups=True):
                async with open_shards(kafka, "shards-back", 1, log_id=log_id, run_id=run_id):
                    pass
            await later.append(GROUPS[1], [epoch(1)])


async def test_the_state_of_one_process_is_divided_into_shards(kafka: KafkaCluster) -> None:
    """The state is divided as a whole, in one transaction, under its old id. A process that has it
    meanwhile ends, and only shards can be opened afterwards."""

    async def run_alone(task_status: trio.TaskStatus[KafkaLog]) -> None:
        with pytest.RaisesGroup(pytest.RaisesExc(StateLogTaken, match=str(os.getpid()))):
            async with open_kafka_log(kafka.addresses, "shards-of-one") as log:
                task_status.started(log)
                await trio.sleep_forever()

    with trio.fail_after(LIMIT_S):
        assert await shard_count(kafka, "shards-of-one") == 0
        async with trio.open_nursery() as nursery:
            alone = await nursery.start(run_alone)
            for shard in range(SHARDS):
                await alone.append(GROUPS[shard], [epoch(shard)])
            await alone.append(GROUPS[0], [epoch(7)])
            assert await shard_count(kafka, "shards-of-one") == 0
            async with open_shards(kafka, "shards-of-one") as log:
                assert log.id == alone.id
                assert log.run_id > alone.run_id
                assert log.run_id % RUNS_PER_CLAIM == 0
                assert sorted(await log.group_ids()) == sorted([GROUPS[0], GROUPS[2]])
                await log.open_shard(1)
                await log.open_shard(3)
                read = [await log.read(group) for group in GROUPS]
                assert read == [(epoch(number),) for number in (7, 1, 2, 3)]
        assert await shard_count(kafka, "shards-of-one") == SHARDS
        with pytest.RaisesGroup(pytest.RaisesExc(StateLogUnusable, match="several processes")):
            async with open_kafka_log(kafka.addresses, "shards-of-one"):
                pass


async def test_a_claim_that_comes_too_late_ends_nobody_but_its_gateway(
    kafka: KafkaCluster,
) -> None:
    """A shard of the former gateway went from one process to another when this one claimed it."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    with trio.fail_after(LIMIT_S):
        async with open_shards(kafka, "shards-late") as former:
            log_id, run_id = former.id, former.run_id + 1
        async with open_shards(kafka, "shards-late") as log:
            await log.open_shard(1)
            await log.append(GROUPS[1], [epoch(1)])
            owner = LogOwnerValue(owner_id="x", host="h", process_id=1, since=1, run_id=run_id)
            claim = {1: [owner_entry(owner)]}
            await trio.to_thread.run_sync(
                partial(write_at_once, config, claim, topic="shards-late")
            )
            with pytest.RaisesGroup(pytest.RaisesExc(StateLogTaken), flatten_subgroups=True):
                async with open_shards(kafka, "shards-late", 1, log_id=log_id, run_id=run_id):
                    pass
            with capture_logs() as lines:
                await fence(kafka, "shards-late-1")
                await until_logged(lines, "state_log_lost")
            await until(lambda: log.may_answer)
            assert await log.read(GROUPS[1]) == (epoch(1),)
            await log.append(GROUPS[1], [epoch(2)])


async def test_two_first_starts_at_once_leave_one_log(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that loses leaves nothing in the parts, though it was about to write them."""
    read, go_on = trio.Event(), threading.Event()

    class HeldUp(KafkaLog):
        def _found_parts(self, *args: Any) -> Any:
            if not read.is_set():
                trio.from_thread.run_sync(read.set)
                go_on.wait(LIMIT_S)
            return super()._found_parts(*args)

    monkeypatch.setattr(shards, "KafkaLog", HeldUp)

    async def lose() -> None:
        with pytest.RaisesGroup(pytest.RaisesExc(StateLogTaken), flatten_subgroups=True):
            async with open_shards(kafka, "shards-first"):
                pass

    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose)
            await read.wait()
            async with open_shards(kafka, "shards-first") as log:
                go_on.set()
                while nursery.child_tasks:
                    await trio.sleep(0.05)
                await log.open_shard(1)
                await log.append(GROUPS[1], [epoch(1)])


async def test_a_log_that_is_left_no_longer_fences_the_next_owner(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former owner was about to take back a shard that the cluster had given up."""
    opening, is_open = trio.Event(), threading.Event()

    class HeldUp(TransactionalWriter):
        def open(self, timeout_s: float, check: Callable[[], None] = lambda: None) -> None:
            trio.from_thread.run_sync(opening.set)
            while not is_open.wait(0.05):
                check()
            super().open(timeout_s, check)

    with trio.fail_after(LIMIT_S):
        async with open_shards(kafka, "shards-left") as log:
            await log.open_shard(1)
            with monkeypatch.context() as patch:
                patch.setattr(kafka_log, "TransactionalWriter", HeldUp)
                await fence(kafka, "shards-left-1")
                await opening.wait()
            await log.close_shard(1)
            async with open_shards(
                kafka, "shards-left", 1, log_id=log.id, run_id=log.run_id + 1
            ) as other:
                with capture_logs() as lines:
                    is_open.set()
                    for number in range(20):
                        await other.append(GROUPS[1], [epoch(number)])
                        await trio.sleep(0.1)
                assert lines == []


async def test_a_log_that_has_lost_its_first_part_is_refused(kafka: KafkaCluster) -> None:
    """The others have groups, which would be lost with their id."""
    with trio.fail_after(LIMIT_S):
        async with open_shards(kafka, "shards-lost") as log:
            await log.append(GROUPS[2], [epoch(1)])
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for key in (LOG_ID_KEY, LOG_OWNER_KEY, LOG_SHARD_KEY):
            producer.produce("shards-lost", key=key, value=None, partition=0)
        assert producer.flush(LIMIT_S) == 0
        lost = pytest.RaisesExc(StateLogUnusable, match="lost the records of partition 0")
        with lost:
            await shard_count(kafka, "shards-lost")
        with pytest.RaisesGroup(lost, flatten_subgroups=True):
            async with open_shards(kafka, "shards-lost"):
                pass


async def test_a_process_that_is_stopped_waits_for_no_shard(kafka: KafkaCluster) -> None:
    """Nothing of them is on its way: all have been cancelled."""
    with trio.fail_after(LIMIT_S):
        with trio.CancelScope() as scope:
            async with open_shards(kafka, "shards-stopped"):
                stopped_s = trio.current_time()
                scope.cancel()
                await trio.sleep_forever()
        assert trio.current_time() - stopped_s < LEAVE_TIMEOUT_S


async def test_a_single_gateway_needs_the_transactional_ids_of_all_shards(
    kafka: KafkaCluster,
) -> None:
    """If the topic has shards. Several processes need them in any case."""
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    await trio.to_thread.run_sync(make_or_check, config, "shards-of-one-writer", 1)
    await trio.to_thread.run_sync(make_or_check, config, "shards-of-all-writers", 16)
    needed: dict[tuple[str, bool], int] = {}
    async with await BrokerConnection.open(*kafka.addresses[0]) as connection:
        for topic in ("shards-of-one-writer", "shards-of-all-writers", "shards-unmade"):
            for has_shards in (False, True):
                ids = await find_writers(connection, topic, has_shards=has_shards)
                assert len(set(ids)) == len(ids)
                needed[topic, has_shards] = len(ids)
    assert needed == {
        ("shards-of-one-writer", False): 1,
        ("shards-of-one-writer", True): 16,
        ("shards-of-all-writers", False): 16,
        ("shards-of-all-writers", True): 16,
        ("shards-unmade", False): 1,
        ("shards-unmade", True): 16,
    }


async def shard_count(cluster: KafkaCluster, topic: str) -> int:
    """The shards of a topic."""
    return await trio.to_thread.run_sync(count_shards, cluster.addresses, topic, PLAIN_ACCESS)
