"""The state log in a real cluster is durable, and has one writer at a time."""

import json
import os
import random
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from operator import not_

import pytest
import trio
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from structlog.testing import capture_logs

from coordinator.interface.records import TargetAssignmentMetadata
from gateway import cli
from gateway.state_log.kafka import kafka_log
from gateway.state_log.kafka.content import Content, content_of, owner_entry
from gateway.state_log.kafka.kafka_log import (
    GIVE_WAY_S,
    PARTITION,
    KafkaLog,
    open_kafka_log,
)
from gateway.state_log.kafka.lease import LEASE_MS
from gateway.state_log.kafka.reading import read_all
from gateway.state_log.kafka.transactions import TRANSACTION_TIMEOUT_MS, write_at_once
from gateway.state_log.log import (
    StateLogError,
    StateLogRefused,
    StateLogTaken,
    StateLogUnsure,
    StateLogUnusable,
)
from gateway.state_log.record_format import encode_record
from kafka_codecs.state_records import LogOwnerValue
from tests.gateway.state_log.kafka.kafka_fencing import fence
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC, KafkaCluster, running_kafka
from tests.support.until import until, until_answered, until_logged

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

LIMIT_S = 60
OF_A_LATER_GROUPFERRY = b"\x4e\x7f\x00"
"""A record key with an unknown type in groupferry's range."""


def epoch(number: int) -> TargetAssignmentMetadata:
    """A record that differs for each number."""
    return TargetAssignmentMetadata(epoch=number)


@asynccontextmanager
async def open_log(cluster: KafkaCluster, topic: str) -> AsyncIterator[KafkaLog]:
    """A log that is open meanwhile."""
    async with open_kafka_log(cluster.addresses, topic) as log:
        yield log


async def test_appended_records_survive_a_restart(kafka: KafkaCluster) -> None:
    """The newest record of each key is there, and the log keeps its id."""
    async with open_log(kafka, "state-comes-back") as log:
        await log.append("a", [epoch(1)])
        await log.append("b", [epoch(2)])
        await log.append("a", [epoch(3)])
        assert await log.read("a") == (epoch(3),)
        name = log.id
    async with open_log(kafka, "state-comes-back") as log:
        assert await log.read("a") == (epoch(3),)
        assert await log.read("b") == (epoch(2),)
        assert set(await log.group_ids()) == {"a", "b"}
        assert log.id == name


async def test_a_torn_batch_is_dropped_whole(kafka: KafkaCluster) -> None:
    """The writer died between its records and the commit. The records are in the topic, but not in
    the log."""
    async with open_log(kafka, "state-torn") as log:
        await log.append("g", [epoch(1)])

    def tear() -> None:
        producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "state-torn-0"}
        )
        producer.init_transactions(10)
        producer.begin_transaction()
        for entry in (encode_record("g", epoch(2)), encode_record("h", epoch(3))):
            producer.produce("state-torn", entry.value, entry.key, partition=0)
        assert producer.flush(10) == 0

    await trio.to_thread.run_sync(tear)
    async with open_log(kafka, "state-torn") as log:
        assert await log.read("g") == (epoch(1),)
        assert await log.group_ids() == ("g",)


async def test_the_state_command_reads_the_log(
    kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """`groupferry state --upstream` works while a gateway owns the log. Foreign records are shown
    raw, and a missing topic is reported in one line."""
    where = ("state", f"--upstream={kafka.bootstrap_servers}")
    async with open_log(kafka, "state-by-hand") as log:
        await log.append("a", [epoch(1)])
        await log.append("b", [epoch(2)])
        run = partial(cli.main, [*where, "--state-topic=state-by-hand"])
        assert await trio.to_thread.run_sync(run) == 0
        of_all = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        run = partial(cli.main, [*where, "--state-topic=state-by-hand", "--group=b"])
        assert await trio.to_thread.run_sync(run) == 0
        (of_b,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        of_the_log = {line["type"]: line["value"] for line in of_all}
        assert of_the_log["LOG_OWNER"]["process_id"] == os.getpid()
        assert of_the_log["LOG_ID"]["log_id"] == log.id
    assert (of_b["type"], of_b["value"]["assignment_epoch"]) == (
        "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA",
        2,
    )
    await trio.to_thread.run_sync(produce_something, kafka, TOPIC)
    assert await trio.to_thread.run_sync(cli.main, [*where, f"--state-topic={TOPIC}"]) == 0
    foreign = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all("unreadable" in line for line in foreign)
    assert (b"key".hex(), b"value".hex()) in {(line["key"], line["value"]) for line in foreign}
    assert await trio.to_thread.run_sync(cli.main, [*where, "--state-topic=state-by-hnad"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "groupferry: there is no topic state-by-hnad in the cluster; see --state-topic"
    assert not await exists(kafka, "state-by-hnad")


async def test_a_second_gateway_takes_the_log_and_the_first_ends(kafka: KafkaCluster) -> None:
    """The first cannot write any more, and names the new owner. Its records are there."""

    async def run_first(task_status: trio.TaskStatus[KafkaLog]) -> None:
        with pytest.RaisesGroup(pytest.RaisesExc(StateLogTaken, match=str(os.getpid()))):
            async with open_log(kafka, "state-taken") as log:
                task_status.started(log)
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        first = await nursery.start(run_first)
        await first.append("a", [epoch(1)])
        async with open_log(kafka, "state-taken") as second:
            assert await second.read("a") == (epoch(1),)
            with pytest.raises(StateLogError):
                await first.append("a", [epoch(2)])
            await second.append("a", [epoch(3)])
            await trio.sleep(LEASE_MS / 1000)
            assert not first.may_answer
            assert second.may_answer
            assert await second.read("a") == (epoch(3),)


async def test_a_late_claimant_does_not_fence_the_owner(kafka: KafkaCluster) -> None:
    """The late claimant paused between reading the claim and its first write, and was fenced
    meanwhile. It does not fence the gateway that did so."""
    looked, go_on = trio.Event(), threading.Event()

    class HeldUp(KafkaLog):
        def _check_claim(self) -> Content:
            content = super()._check_claim()
            trio.from_thread.run_sync(looked.set)
            go_on.wait(LIMIT_S)
            return content

    async def be_late() -> None:
        with pytest.RaisesGroup(StateLogTaken):
            async with trio.open_nursery() as late:
                await late.start(HeldUp(kafka.addresses, "state-late").run)

    with capture_logs() as lines, trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(be_late)
            await looked.wait()
            async with open_log(kafka, "state-late") as owner:
                go_on.set()
                while nursery.child_tasks:
                    await owner.append("a", [epoch(1)])
    assert [line["event"] for line in lines] == []


async def test_a_gateway_that_cannot_read_the_log_does_not_take_it(kafka: KafkaCluster) -> None:
    """The gateway may be an older groupferry. The owner continues."""
    topic = "state-newer"
    async with open_log(kafka, topic) as log:
        await log.append("a", [epoch(1)])
        await trio.to_thread.run_sync(produce_something, kafka, topic, OF_A_LATER_GROUPFERRY)
        with pytest.RaisesGroup(pytest.RaisesExc(StateLogUnusable, match="newer groupferry")):
            async with open_log(kafka, topic):
                pass
        await log.append("a", [epoch(2)])
        await until(lambda: log.may_answer)


async def test_the_owner_gives_way_to_a_claim(kafka: KafkaCluster) -> None:
    """The log cannot be taken while a transaction ends, and a busy owner always ends one. A claim
    without a takeover costs only a pause."""
    topic = "state-busy"

    async def longest_write(log: KafkaLog, length_s: float) -> float:
        longest, end = 0.0, trio.current_time() + length_s
        while (began := trio.current_time()) < end:
            await log.append("a", [epoch(1)])
            longest = max(longest, trio.current_time() - began)
        return longest

    async with open_log(kafka, topic) as log:
        await log.append("a", [epoch(1)])
        with capture_logs() as lines:
            await longest_write(log, 1)
        assert lines == []
        await claim(kafka, topic)
        with capture_logs() as lines:
            assert await longest_write(log, 2 * GIVE_WAY_S) > GIVE_WAY_S
        assert [line["event"] for line in lines] == ["state_log_claimed"]
        await until(lambda: log.may_answer)


async def test_an_abandoned_claim_does_not_end_the_owner_later(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer never owned the log. The cluster may fence the owner's writer at any later
    time."""
    monkeypatch.setattr(kafka_log, "ABANDONED_AFTER_S", 0)
    topic = "state-abandoned"
    async with open_log(kafka, topic) as log:
        await log.append("g", [epoch(1)])
        with capture_logs() as lines:
            await claim(kafka, topic)
            await until_logged(lines, "state_log_claimed")
            await log.append("g", [epoch(2)])
            await fence(kafka, f"{topic}-0")
            await until_logged(lines, "state_log_lost")
        await until(lambda: log.may_answer)
        assert await log.read("g") == (epoch(2),)


async def test_many_groups_write_together(kafka: KafkaCluster) -> None:
    """Their batches share transactions."""
    async with open_log(kafka, "state-together") as log:
        async with trio.open_nursery() as nursery:
            for number in range(500):
                nursery.start_soon(log.append, f"g{number}", [epoch(number)])
    async with open_log(kafka, "state-together") as log:
        for number in range(500):
            assert await log.read(f"g{number}") == (epoch(number),)


async def test_a_record_beyond_the_clusters_limit_fails_alone(kafka: KafkaCluster) -> None:
    """The record is refused before it is sent."""
    await make_topic(kafka, "state-small", {"cleanup.policy": "compact", "max.message.bytes": 2000})
    huge = TargetAssignmentMetadata(epoch=1, assignor="x" * 2_000)
    async with open_log(kafka, "state-small") as log, trio.open_nursery() as nursery:
        nursery.start_soon(log.append, "a", [epoch(1)])
        with pytest.raises(StateLogRefused, match="accepts records of"):
            await log.append("b", [huge])
        nursery.start_soon(log.append, "c", [epoch(2)])


async def test_a_transaction_may_exceed_one_batch_of_the_topic(kafka: KafkaCluster) -> None:
    """The topic's limit also applies to batches of records."""
    await make_topic(
        kafka, "state-narrow", {"cleanup.policy": "compact", "max.message.bytes": 2000}
    )
    dice = random.Random(1)
    async with open_log(kafka, "state-narrow") as log, trio.open_nursery() as nursery:
        for number in range(20):
            name = dice.randbytes(300).hex()
            record = TargetAssignmentMetadata(epoch=number, assignor=name)
            nursery.start_soon(log.append, f"g{number}", [record])


async def test_a_broker_that_dies_loses_no_batch(one_broker: KafkaCluster) -> None:
    """Acknowledged batches are there, failed ones are not, and doubtful ones may be. The log
    continues by itself."""
    acknowledged, failed = list[int](), set[int]()
    async with open_log(one_broker, "state-dies") as log:
        stop = trio.Event()

        async def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    await log.append("g", [epoch(number)])
                except StateLogUnsure:
                    continue
                except StateLogError:
                    failed.add(number)
                    await trio.sleep(0.2)
                else:
                    acknowledged.append(number)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            for _ in range(2):
                await until(partial(has_grown, acknowledged, len(acknowledged)))
                (broker,) = one_broker.brokers.values()
                await broker.kill()
                await until(lambda: not log.may_answer)
                await one_broker.start()
                await until(partial(has_grown, acknowledged, len(acknowledged)))
            stop.set()
        assert log.may_answer
    async with open_log(one_broker, "state-dies") as log:
        (record,) = await log.read("g")
    assert isinstance(record, TargetAssignmentMetadata)
    assert record.epoch is not None
    assert record.epoch >= acknowledged[-1]
    assert record.epoch not in failed


async def test_a_writer_fenced_by_the_cluster_takes_the_log_again(kafka: KafkaCluster) -> None:
    """The writer was down for longer than a transaction may last, and no other gateway has claimed
    the log."""
    async with open_log(kafka, "state-given-up") as log:
        await log.append("g", [epoch(1)])
        await fence(kafka, "state-given-up-0")
        stored = epoch(1)
        with suppress(StateLogError):  # unless a renewal has already found out and repaired it
            await log.append("g", [epoch(2)])
            stored = epoch(2)
        await until(lambda: log.may_answer)
        assert await log.read("g") == (stored,)
        await log.append("g", [epoch(3)])


@pytest.mark.parametrize("is_noticed", [True, False])
async def test_a_recreated_topic_is_not_the_log(kafka: KafkaCluster, *, is_noticed: bool) -> None:
    """The new topic lacks the groups, so the gateway must not continue silently. Later gateways
    must not mistake a part of the groups for all of them."""
    topic = f"state-anew-{is_noticed}"
    with pytest.RaisesGroup(pytest.RaisesExc(StateLogUnusable, match="groups are then forgotten")):
        async with open_log(kafka, topic) as log:
            for number in range(10):
                await log.append("a", [epoch(number)])
            await delete_topic(kafka, topic)
            if is_noticed:
                with pytest.raises(StateLogError):
                    await log.append("a", [epoch(10)])
                assert not await exists(kafka, topic)
            await make_topic(kafka, topic, {"cleanup.policy": "compact"})
            with trio.fail_after(60):
                while True:
                    with suppress(StateLogError):
                        await log.append("b", [epoch(11)])
                    await trio.sleep(0.5)


async def test_a_partial_log_is_refused(kafka: KafkaCluster) -> None:
    """For example, a topic was recreated while a gateway wrote."""
    topic = "state-part"
    await make_topic(kafka, topic, {"cleanup.policy": "compact"})
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    entry = encode_record("a", epoch(1))
    await trio.to_thread.run_sync(partial(write_at_once, config, {PARTITION: [entry]}, topic=topic))
    with pytest.RaisesGroup(pytest.RaisesExc(StateLogUnusable, match="not the complete")):
        async with open_log(kafka, topic):
            pass


async def test_a_fenced_writer_does_not_continue_in_another_log(kafka: KafkaCluster) -> None:
    """Its groups in memory have the state of the old log."""
    with pytest.RaisesGroup(pytest.RaisesExc(StateLogUnusable, match="not the complete")):
        async with open_log(kafka, "state-swapped") as log:
            await log.append("a", [epoch(1)])
            await fence(kafka, "state-swapped-0")
            await delete_topic(kafka, "state-swapped")
            await make_topic(kafka, "state-swapped", {"cleanup.policy": "compact"})
            with trio.fail_after(60):
                await trio.sleep_forever()


def test_a_gateway_that_may_not_write_does_not_start(
    kafka_of_short_transactions: KafkaCluster,
) -> None:
    """The gateway reports the cluster's error instead of waiting."""

    async def open_it() -> None:
        with trio.fail_after(60):
            async with open_log(kafka_of_short_transactions, "state-refused"):
                pass

    with pytest.RaisesGroup(pytest.RaisesExc(StateLogError, match="does not allow writing")):
        trio.run(open_it)


@pytest.fixture
def kafka_of_short_transactions() -> Iterator[KafkaCluster]:
    """A cluster that refuses transactions as long as groupferry's may be."""
    settings = {"transaction.max.timeout.ms": TRANSACTION_TIMEOUT_MS - 1}
    with running_kafka("3.9", brokers=1, settings=settings) as cluster:
        yield cluster


async def delete_topic(cluster: KafkaCluster, name: str) -> None:
    """Delete the topic as an admin would, and wait until it is gone."""

    def delete() -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.delete_topics([name])[name].result()

    await trio.to_thread.run_sync(delete)
    await until_answered(partial(exists, cluster, name), not_)


async def exists(cluster: KafkaCluster, name: str) -> bool:
    """Whether there is such a topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    known = await trio.to_thread.run_sync(lambda: admin.list_topics(timeout=10))
    return name in known.topics


async def make_topic(cluster: KafkaCluster, name: str, config: Mapping[str, object]) -> None:
    """Create the topic with settings other than the gateway's."""

    def make() -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(name, 1, 1, config={k: str(v) for k, v in config.items()})])[
            name
        ].result()

    await trio.to_thread.run_sync(make)


async def claim(cluster: KafkaCluster, topic: str) -> None:
    """Claim the log like a gateway that ends before it fences any other."""
    config = {"bootstrap.servers": cluster.bootstrap_servers}
    entry = owner_entry(LogOwnerValue(owner_id="other", host="h", process_id=1, since=1))
    await trio.to_thread.run_sync(partial(write_at_once, config, {PARTITION: [entry]}, topic=topic))


def has_grown(numbers: Sequence[int], count: int) -> bool:
    """Beyond that count."""
    return len(numbers) > count


def produce_something(cluster: KafkaCluster, topic: str, key: bytes = b"key") -> None:
    """A record that this groupferry did not write, by default one that none would."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, b"value", key, partition=0)
    assert producer.flush(10) == 0


async def test_a_log_keeps_the_cluster_that_it_first_met(
    kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """In another one it is a copy, such as MirrorMaker makes, and no gateway claims it. `groupferry
    state` shows it, and says so."""
    topic = "state-of-one-cluster"
    async with open_log(kafka, topic) as log:  # of a cluster without an id, or of 0.2.0
        name = log.id
    async with open_kafka_log(kafka.addresses, topic, cluster_id="there") as log:
        assert log.id == name
    config = {"bootstrap.servers": kafka.bootstrap_servers}

    def content() -> Content:
        return content_of(read_all(config, topic=topic, partitions=(PARTITION,)))

    before = await trio.to_thread.run_sync(content)
    assert before.cluster_id == "there"
    for cluster_id in ("here", None):
        with pytest.raises(ExceptionGroup) as refused:
            async with open_kafka_log(kafka.addresses, topic, cluster_id=cluster_id):
                pass
        (unusable,) = refused.value.exceptions
        assert isinstance(unusable, StateLogUnusable)
    assert (await trio.to_thread.run_sync(content)).owner == before.owner
    command = ["state", f"--upstream={kafka.bootstrap_servers}", f"--state-topic={topic}"]
    assert await trio.to_thread.run_sync(cli.main, command) == 1
    printed = capsys.readouterr()
    of_log = {line["type"]: line["value"] for line in map(json.loads, printed.out.splitlines())}
    assert of_log["LOG_ID"] == {"log_id": name, "cluster_id": "there"}
    assert printed.err.startswith(f"groupferry: topic {topic} is the state log of cluster there")
