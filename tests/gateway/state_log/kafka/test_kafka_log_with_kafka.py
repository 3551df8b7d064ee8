"""The state log in a real cluster: what was written comes back, one gateway at a time writes."""

import json
import os
import random
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import trio
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from structlog.testing import capture_logs

from coordinator.records import TargetAssignmentMetadata
from gateway import cli
from gateway.state_log.kafka import kafka_log
from gateway.state_log.kafka.content import Content, owner_entry
from gateway.state_log.kafka.kafka_log import (
    GIVE_WAY_S,
    PARTITION,
    KafkaLog,
    open_kafka_log,
)
from gateway.state_log.kafka.lease import LEASE_MS
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
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC, KafkaCluster, running_kafka
from tests.support.until import until, until_logged

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

LIMIT_S = 60
OF_A_LATER_GROUPFERRY = b"\x4e\x7f\x00"
"""A record key of a type that is ours and not known yet."""


def epoch(number: int) -> TargetAssignmentMetadata:
    """Some record that says which one it is."""
    return TargetAssignmentMetadata(epoch=number)


@asynccontextmanager
async def opened(cluster: KafkaCluster, topic: str) -> AsyncIterator[KafkaLog]:
    """A log that is kept meanwhile."""
    async with open_kafka_log(cluster.addresses, topic) as log:
        yield log


async def test_what_was_written_comes_back(kafka: KafkaCluster) -> None:
    """The newest record of each key, and the log keeps its name."""
    async with opened(kafka, "state-comes-back") as log:
        await log.append("a", [epoch(1)])
        await log.append("b", [epoch(2)])
        await log.append("a", [epoch(3)])
        assert await log.read("a") == (epoch(3),)
        name = log.id
    async with opened(kafka, "state-comes-back") as log:
        assert await log.read("a") == (epoch(3),)
        assert await log.read("b") == (epoch(2),)
        assert set(await log.group_ids()) == {"a", "b"}
        assert log.id == name


async def test_a_torn_batch_is_dropped_whole(kafka: KafkaCluster) -> None:
    """The writer died between its records and the commit: they are in the topic and not in the
    log."""
    async with opened(kafka, "state-torn") as log:
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
    async with opened(kafka, "state-torn") as log:
        assert await log.read("g") == (epoch(1),)
        assert await log.group_ids() == ("g",)


async def test_the_log_is_read_by_hand(
    kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """`groupferry state --upstream`, also while a gateway has the log. What is no record of ours is
    shown raw; a topic that is not there gets one line."""
    where = ("state", f"--upstream={kafka.bootstrap_servers}")
    async with opened(kafka, "state-by-hand") as log:
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
    assert (foreign[-1]["key"], foreign[-1]["value"]) == (b"key".hex(), b"value".hex())
    assert await trio.to_thread.run_sync(cli.main, [*where, "--state-topic=state-by-hnad"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "groupferry: there is no topic state-by-hnad in the cluster; see --state-topic"
    assert not await exists(kafka, "state-by-hnad")


async def test_a_second_gateway_takes_it_and_the_first_ends(kafka: KafkaCluster) -> None:
    """The first cannot write any more, and says who has the log; what it wrote is there."""
    with pytest.RaisesGroup(pytest.RaisesExc(StateLogTaken, match=str(os.getpid()))):
        async with opened(kafka, "state-taken") as first:
            await first.append("a", [epoch(1)])
            async with opened(kafka, "state-taken") as second:
                assert await second.read("a") == (epoch(1),)
                with pytest.raises(StateLogError):
                    await first.append("a", [epoch(2)])
                await second.append("a", [epoch(3)])
                await trio.sleep(LEASE_MS / 1000)
                assert not first.may_answer
                assert second.may_answer
                assert await second.read("a") == (epoch(3),)


async def test_who_comes_too_late_lets_the_owner_be(kafka: KafkaCluster) -> None:
    """Held up between its look at the claim and its first write, it was fenced, and does not fence
    the one who did it."""
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
            async with opened(kafka, "state-late") as owner:
                go_on.set()
                while nursery.child_tasks:
                    await owner.append("a", [epoch(1)])
    assert [line["event"] for line in lines] == []


async def test_who_cannot_read_it_does_not_take_it(kafka: KafkaCluster) -> None:
    """Such as an older groupferry: the one that has it goes on."""
    topic = "state-newer"
    async with opened(kafka, topic) as log:
        await log.append("a", [epoch(1)])
        await trio.to_thread.run_sync(produce_something, kafka, topic, OF_A_LATER_GROUPFERRY)
        with pytest.RaisesGroup(pytest.RaisesExc(StateLogUnusable, match="newer groupferry")):
            async with opened(kafka, topic):
                pass
        await log.append("a", [epoch(2)])
        assert log.may_answer


async def test_who_has_the_log_gives_way_to_a_claim(kafka: KafkaCluster) -> None:
    """Nobody can take it while a transaction ends, and one that writes all the time always ends
    one. A claim that leads to nothing costs a pause, and no more."""
    topic = "state-busy"

    async def longest_write(log: KafkaLog, length_s: float) -> float:
        longest, end = 0.0, trio.current_time() + length_s
        while (began := trio.current_time()) < end:
            await log.append("a", [epoch(1)])
            longest = max(longest, trio.current_time() - began)
        return longest

    async with opened(kafka, topic) as log:
        await log.append("a", [epoch(1)])
        with capture_logs() as lines:
            await longest_write(log, 1)
        assert lines == []
        await claim(kafka, topic)
        with capture_logs() as lines:
            assert await longest_write(log, 2 * GIVE_WAY_S) > GIVE_WAY_S
        assert [line["event"] for line in lines] == ["state_log_claimed"]
        await until(lambda: log.may_answer)


async def test_a_claim_that_led_to_nothing_does_not_end_the_owner_later(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who wrote it never had the log: the cluster may give up the owner's writer at any time
    later."""
    monkeypatch.setattr(kafka_log, "ABANDONED_AFTER_S", 0)
    topic = "state-abandoned"
    async with opened(kafka, topic) as log:
        await log.append("g", [epoch(1)])
        with capture_logs() as lines:
            await claim(kafka, topic)
            await until_logged(lines, "state_log_claimed")
            await log.append("g", [epoch(2)])
            await fence(kafka, f"{topic}-0")
            await until_logged(lines, "state_log_lost")
        await until(lambda: log.may_answer)
        assert await log.read("g") == (epoch(2),)


async def test_many_write_together(kafka: KafkaCluster) -> None:
    """The batches of many groups share their transactions."""
    async with opened(kafka, "state-together") as log:
        async with trio.open_nursery() as nursery:
            for number in range(500):
                nursery.start_soon(log.append, f"g{number}", [epoch(number)])
    async with opened(kafka, "state-together") as log:
        for number in range(500):
            assert await log.read(f"g{number}") == (epoch(number),)


async def test_what_the_cluster_would_not_take_harms_nobody_else(kafka: KafkaCluster) -> None:
    """A record that is too large is refused before it is sent."""
    await make_topic(kafka, "state-small", {"cleanup.policy": "compact", "max.message.bytes": 2000})
    huge = TargetAssignmentMetadata(epoch=1, assignor="x" * 2_000)
    async with opened(kafka, "state-small") as log, trio.open_nursery() as nursery:
        nursery.start_soon(log.append, "a", [epoch(1)])
        with pytest.raises(StateLogRefused, match="accepts records of"):
            await log.append("b", [huge])
        nursery.start_soon(log.append, "c", [epoch(2)])


async def test_what_is_written_together_need_not_fit_into_one_batch(kafka: KafkaCluster) -> None:
    """The topic's limit is for what is sent at once, too."""
    await make_topic(
        kafka, "state-narrow", {"cleanup.policy": "compact", "max.message.bytes": 2000}
    )
    dice = random.Random(1)
    async with opened(kafka, "state-narrow") as log, trio.open_nursery() as nursery:
        for number in range(20):
            name = dice.randbytes(300).hex()
            record = TargetAssignmentMetadata(epoch=number, assignor=name)
            nursery.start_soon(log.append, f"g{number}", [record])


async def test_a_broker_that_dies_costs_no_batch(one_broker: KafkaCluster) -> None:
    """What was acknowledged is there, what failed is not, and what was in doubt is either; the
    log goes on by itself."""
    acknowledged, failed = list[int](), set[int]()
    async with opened(one_broker, "state-dies") as log:
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
                await trio.sleep(1)
                (broker,) = one_broker.brokers.values()
                await broker.kill()
                await trio.sleep(LEASE_MS / 1000)
                assert not log.may_answer
                await one_broker.start()
                await until(partial(has_grown, acknowledged, len(acknowledged)))
            stop.set()
        assert log.may_answer
    async with opened(one_broker, "state-dies") as log:
        (found,) = await log.read("g")
    assert isinstance(found, TargetAssignmentMetadata)
    assert found.epoch is not None
    assert found.epoch >= acknowledged[-1]
    assert found.epoch not in failed


async def test_a_writer_that_the_cluster_gave_up_takes_the_log_again(kafka: KafkaCluster) -> None:
    """It was away for longer than a transaction may last; nobody else has claimed the log."""
    async with opened(kafka, "state-given-up") as log:
        await log.append("g", [epoch(1)])
        await fence(kafka, "state-given-up-0")
        stored = epoch(1)
        with suppress(StateLogError):  # unless a renewal found out first, and it is repaired
            await log.append("g", [epoch(2)])
            stored = epoch(2)
        await until(lambda: log.may_answer)
        assert await log.read("g") == (stored,)
        await log.append("g", [epoch(3)])


@pytest.mark.parametrize("is_noticed", [True, False])
async def test_a_topic_made_anew_is_not_the_log(kafka: KafkaCluster, *, is_noticed: bool) -> None:
    """Its groups are not in it: whoever went on with it would lose them without a word. Neither do
    those who come later take a part of the groups for the whole."""
    topic = f"state-anew-{is_noticed}"
    with pytest.RaisesGroup(pytest.RaisesExc(StateLogUnusable, match="groups are then forgotten")):
        async with opened(kafka, topic) as log:
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


async def test_a_part_of_a_log_is_not_taken_for_the_whole(kafka: KafkaCluster) -> None:
    """Such as a topic that was made anew under a gateway that wrote on."""
    topic = "state-part"
    await make_topic(kafka, topic, {"cleanup.policy": "compact"})
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    entry = encode_record("a", epoch(1))
    await trio.to_thread.run_sync(
        partial(write_at_once, config, entry, topic=topic, partition=PARTITION)
    )
    with pytest.RaisesGroup(pytest.RaisesExc(StateLogUnusable, match="not the complete")):
        async with opened(kafka, topic):
            pass


async def test_a_writer_given_up_does_not_go_on_in_another_log(kafka: KafkaCluster) -> None:
    """What the groups hold in memory is what the old log had."""
    with pytest.RaisesGroup(pytest.RaisesExc(StateLogUnusable, match="not the complete")):
        async with opened(kafka, "state-swapped") as log:
            await log.append("a", [epoch(1)])
            await fence(kafka, "state-swapped-0")
            await delete_topic(kafka, "state-swapped")
            await make_topic(kafka, "state-swapped", {"cleanup.policy": "compact"})
            await trio.sleep(60)


def test_without_the_right_to_write_it_does_not_start(
    kafka_of_short_transactions: KafkaCluster,
) -> None:
    """Whatever the cluster has against our transactions is said, and not waited out."""

    async def open_it() -> None:
        with trio.fail_after(60):
            async with opened(kafka_of_short_transactions, "state-refused"):
                pass

    with pytest.RaisesGroup(pytest.RaisesExc(StateLogError, match="does not allow writing")):
        trio.run(open_it)


@pytest.fixture
def kafka_of_short_transactions() -> Iterator[KafkaCluster]:
    """It refuses transactions as long as ours may be."""
    settings = {"transaction.max.timeout.ms": TRANSACTION_TIMEOUT_MS - 1}
    with running_kafka("3.9", brokers=1, settings=settings) as cluster:
        yield cluster


async def delete_topic(cluster: KafkaCluster, name: str) -> None:
    """As an admin would, and wait until it is gone."""

    def delete() -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.delete_topics([name])[name].result()

    await trio.to_thread.run_sync(delete)
    with trio.fail_after(30):
        while await exists(cluster, name):  # nobody would tell
            await trio.sleep(0.1)


async def exists(cluster: KafkaCluster, name: str) -> bool:
    """Whether there is such a topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    known = await trio.to_thread.run_sync(lambda: admin.list_topics(timeout=10))
    return name in known.topics


async def make_topic(cluster: KafkaCluster, name: str, config: Mapping[str, object]) -> None:
    """With these settings, made by somebody else."""

    def make() -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(name, 1, 1, config={k: str(v) for k, v in config.items()})])[
            name
        ].result()

    await trio.to_thread.run_sync(make)


async def claim(cluster: KafkaCluster, topic: str) -> None:
    """As a gateway does that then ends before it fences anybody."""
    config = {"bootstrap.servers": cluster.bootstrap_servers}
    entry = owner_entry(LogOwnerValue(owner_id="other", host="h", process_id=1, since=1))
    await trio.to_thread.run_sync(
        partial(write_at_once, config, entry, topic=topic, partition=PARTITION)
    )


async def fence(cluster: KafkaCluster, transactional_id: str) -> None:
    """As the cluster does with a transaction that lasts too long: the epoch of its producer ends,
    and nobody has claimed anything."""

    def initialise() -> None:
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": transactional_id}
        )
        while True:
            try:
                producer.init_transactions(10)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.CONCURRENT_TRANSACTIONS:
                    raise
            else:
                return

    await trio.to_thread.run_sync(initialise)


def has_grown(numbers: Sequence[int], count: int) -> bool:
    """Beyond that count."""
    return len(numbers) > count


def produce_something(cluster: KafkaCluster, topic: str, key: bytes = b"key") -> None:
    """A record that this groupferry did not write, by default one that none would."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, b"value", key, partition=0)
    assert producer.flush(10) == 0
