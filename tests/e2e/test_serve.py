"""`groupferry serve` as a process: its end, failed starts, and clients with default settings."""

import resource
import socket
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from gateway.demo import mock_cluster
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_requests import join_request
from tests.support.ports import free_port
from tests.support.serve_process import START_LIMIT_S, command, serving
from tests.support.wire import open_wire

TOPIC = "numbers"
PARTITIONS = 4
LIMIT_S = 60
FAILS = "import sys, time; print('no luck', file=sys.stderr); time.sleep(0.2); sys.exit(1)"
PARKED_FOR_LONG = "--group-initial-rebalance-delay-ms=300000"
# A JoinGroup without a member id must wait, but from v4 on it is answered with an id first.
LAST_VERSION_WITHOUT_MEMBER_ID = 3


async def started_cluster(nursery: trio.Nursery) -> str:
    """Start an embedded cluster. It ends with the nursery."""
    bootstrap: str = await nursery.start(
        partial(mock_cluster.run, topic=TOPIC, partitions=PARTITIONS)
    )
    return bootstrap


def produce(bootstrap: str, count: int) -> None:
    """Write numbered records."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def consume(consumer: Consumer, count: int) -> list[int]:
    """Read this many records."""
    values: list[int] = []
    while len(values) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(values)} of {count} records"
        if (error := message.error()) is None:
            values.append(int(message.value() or b""))
        else:
            assert error.retriable(), error
    return values


async def test_sigterm_answers_parked_requests_and_ends(tmp_path: Path) -> None:
    """A parked JoinGroup is refused, a waiting fetch is cut off, and nothing hangs."""
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            upstream = await started_cluster(nursery)
            await trio.to_thread.run_sync(produce, upstream, 100)
            async with serving(upstream, tmp_path, PARKED_FOR_LONG) as gateway:
                fetching = Consumer(
                    {
                        "bootstrap.servers": gateway.bootstrap,
                        "group.id": "alone",
                        "fetch.wait.max.ms": 5000,
                        "enable.auto.commit": False,  # or close() waits for a coordinator
                        "log_level": 0,
                    }
                )
                fetching.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
                assert len(await trio.to_thread.run_sync(consume, fetching, 100)) == 100
                host, _, port = gateway.bootstrap.rpartition(":")
                async with open_wire((host, int(port))) as parked:
                    answers = []

                    async def join() -> None:
                        offered = [("range", b"")]
                        request = join_request("parked", protocols=offered, timeout_ms=30_000)
                        answers.append(await parked.ask(request, LAST_VERSION_WITHOUT_MEMBER_ID))

                    async with trio.open_nursery() as asking:
                        asking.start_soon(join)
                        await gateway.until_event("member_joined")
                        assert answers == []
                        with trio.fail_after(10):
                            assert await gateway.terminate() == 0
                assert [answer.error_code for answer in answers] == [
                    ErrorCode.COORDINATOR_NOT_AVAILABLE
                ]
                with trio.fail_after(10):
                    await trio.to_thread.run_sync(fetching.close)
                assert gateway.other_lines == []
                assert gateway.events("drain_finished")[0]["in_time"]
                assert gateway.log[-1]["event"] == "gateway_ended"
            nursery.cancel_scope.cancel()


async def refusal(upstream: str, bootstrap: str, state_folder: Path) -> str:
    """The output of a gateway that cannot start: one line on stderr, with exit status 1."""
    with trio.fail_after(LIMIT_S):
        done = await trio.run_process(
            command(upstream, bootstrap, state_folder),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (1, b"")
    (line,) = done.stderr.decode().splitlines()
    return line


async def test_an_upstream_that_is_down_is_one_line(tmp_path: Path) -> None:
    """The line has the address. The gateway does not start without a cluster."""
    upstream, bootstrap = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    line = await refusal(upstream, bootstrap, tmp_path)
    assert line.startswith("groupferry: ")
    assert upstream in line


async def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    """The line has the port, and no traceback."""
    with trio.fail_after(LIMIT_S), socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        bootstrap = f"127.0.0.1:{other.getsockname()[1]}"
        async with trio.open_nursery() as nursery:
            line = await refusal(await started_cluster(nursery), bootstrap, tmp_path)
            nursery.cancel_scope.cancel()
    assert line.startswith("groupferry: ")
    assert bootstrap in line


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_consumer_with_default_settings_is_served(protocol: str, tmp_path: Path) -> None:
    """Its isolation.level, read_committed, requests stable offsets, which the embedded cluster
    lacks."""
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            upstream = await started_cluster(nursery)
            await trio.to_thread.run_sync(produce, upstream, 200)
            async with serving(upstream, tmp_path) as gateway:
                values: list[int] = []
                for count in (100, 100):  # the second one continues where the first one stopped
                    consumer = Consumer(
                        {
                            "bootstrap.servers": gateway.bootstrap,
                            "group.id": "defaults",
                            "group.protocol": protocol,
                            "auto.offset.reset": "earliest",
                            "queued.min.messages": 1,
                        }
                    )
                    consumer.subscribe([TOPIC])
                    values += await trio.to_thread.run_sync(consume, consumer, count)
                    await trio.to_thread.run_sync(consumer.close)
                assert sorted(values) == list(range(200))
            nursery.cancel_scope.cancel()


async def test_a_low_shell_limit_of_open_files_refuses_no_clients(tmp_path: Path) -> None:
    """A client takes two files, so the gateway raises the limit to suit `max_connections`."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery, AsyncExitStack() as clients:
            upstream = await started_cluster(nursery)
            resource.setrlimit(resource.RLIMIT_NOFILE, (128, before[1]))
            try:
                gateway = await clients.enter_async_context(
                    serving(
                        upstream,
                        tmp_path,
                        "--max-connections=100",
                        "--max-connections-per-address=100",
                    )
                )
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
            host, _, port = gateway.bootstrap.rpartition(":")
            for _ in range(100):
                client = await clients.enter_async_context(open_wire((host, int(port))))
                await client.ask(ApiVersionsRequest(), version=0)
            await clients.aclose()
            assert gateway.other_lines == []
            nursery.cancel_scope.cancel()


async def test_a_gateway_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    """The test fails immediately, and shows the reason."""
    with trio.fail_after(START_LIMIT_S / 2), pytest.raises(ExceptionGroup) as failure:
        async with serving("127.0.0.1:1", tmp_path, program=FAILS):
            pass
    assert failure.group_contains(AssertionError, match="no luck")
