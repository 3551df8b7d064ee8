"""A whole gateway: its start and its end."""

import gc
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from coordinator.interface.config import GroupConfig
from gateway.cluster.broker_connection import Address
from gateway.cluster.errors import UpstreamError
from gateway.events.event import GatewayEvent
from gateway.state_log.log import StateLogTaken
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataResponse, MetadataResponseBroker
from tests.support.fake_broker import running_fake_broker
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import group_client, parked_join
from tests.support.mock_cluster import running_mock_cluster
from tests.support.offset_broker import OffsetBroker
from tests.support.ports import free_port
from tests.support.until import until

PATIENT = GroupConfig(classic_initial_rebalance_delay_ms=60_000)
"""The first JoinGroup stays parked for a minute."""


def _is_rebalancing(event: GatewayEvent) -> bool:
    return event.fields.get("to_state") == "PreparingRebalance"


async def test_stopping_answers_parked_requests_and_ends() -> None:
    """A JoinGroup that waits for others would delay the drain for minutes."""
    async with (
        running_mock_cluster(1) as upstream,
        whole_gateway(upstream.bootstrap, groups=PATIENT, drain_timeout_s=30) as gateway,
        group_client(gateway.address, "g") as client,
    ):
        with trio.fail_after(10), capture_logs() as lines:
            async with trio.open_nursery() as nursery:

                async def wait() -> None:
                    answer = await parked_join(client)
                    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

                nursery.start_soon(wait)
                await until(lambda: gateway.events and _is_rebalancing(gateway.events[-1]))
                gateway.stop.set()
            await gateway.ended.wait()
    events = [line["event"] for line in lines]
    assert [name for name in events if name.startswith(("drain", "gateway"))] == [
        "drain_started",
        "drain_finished",
        "gateway_ended",
    ]
    assert [line["in_time"] for line in lines if line["event"] == "drain_finished"] == [True]


@pytest.mark.parametrize("end", ["cancelled", "deadline", "failure"])
async def test_only_a_failure_of_another_task_is_not_a_normal_end(end: str) -> None:
    """The demo cancels its gateway. If a time limit within it passes just then, Trio names that as
    the cause. Another task that fails, such as that of a state log which another gateway takes,
    cancels it too."""
    fails = end == "failure"

    async def take_log() -> None:
        raise StateLogTaken("another gateway has it")

    async def run(upstream: Sequence[Address]) -> None:
        async with trio.open_nursery() as nursery, whole_gateway(upstream):
            match end:
                case "cancelled":
                    nursery.cancel_scope.cancel()
                case "deadline":
                    nursery.cancel_scope.deadline = trio.current_time()
                case _:
                    nursery.start_soon(take_log)
            await trio.sleep_forever()

    with capture_logs() as lines:
        async with running_mock_cluster(1) as upstream:
            with pytest.RaisesGroup(StateLogTaken) if fails else nullcontext():
                await run(upstream.bootstrap)
    events = [line["event"] for line in lines]
    assert "gateway_started" in events
    assert ("gateway_ended" in events) is not fails


async def test_a_started_gateway_logs_its_address() -> None:
    """The line also names the brokers."""
    with capture_logs() as lines:
        async with (
            running_mock_cluster(2) as upstream,
            whole_gateway(upstream.bootstrap) as gateway,
        ):
            host, port = gateway.address
    (line,) = [line for line in lines if line["event"] == "gateway_started"]
    assert (line["bootstrap"], line["brokers"]) == (f"{host}:{port}", [1, 2])


async def test_it_starts_without_the_first_broker() -> None:
    """That broker has just died, and the cluster still lists it."""

    class Second(OffsetBroker):
        def metadata(self) -> MetadataResponse:
            answer = OffsetBroker.metadata(self)
            dead = MetadataResponseBroker(node_id=0, host="127.0.0.1", port=free_port())
            return replace(answer, brokers=(dead, *answer.brokers))

    with trio.fail_after(30):
        async with (
            running_fake_broker(Second()) as broker,
            whole_gateway([broker.address]) as gateway,
            group_client(gateway.address, "g") as client,
        ):
            assert (await client.native("n")).error_code == 0


def test_a_cancelled_gateway_leaves_no_file_open() -> None:
    """No file is left to the garbage collector. The gateway runs in a process of its own: threads
    of clients that earlier tests have left may open files at any time."""
    code = f"import trio; from {__name__} import cancel_gateway; trio.run(cancel_gateway)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


async def cancel_gateway() -> None:
    """Run a gateway with clients, and with connections to the coordinator of their group. Raises
    trio.TooSlowError if it leaves a file open."""
    gc.disable()
    broker = OffsetBroker()
    async with running_fake_broker(broker):
        before = _open_files()
        async with (
            whole_gateway([broker.address]) as gateway,
            group_client(gateway.address, "g") as client,
        ):
            await client.enter()
        await until(lambda: _open_files() <= before)


async def test_a_gateway_is_cancelled_while_clients_without_tasks_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their connections close, which ends the commit that one of them has under way."""
    monkeypatch.setattr("gateway.data_path.connection_tasks.KEPT_MAX", 0)
    broker, leaves = OffsetBroker(), trio.Event()

    async def run(task_status: trio.TaskStatus[Gateway]) -> None:
        async with whole_gateway([broker.address]) as gateway:
            task_status.started(gateway)
            await leaves.wait()

    with trio.fail_after(30):
        async with running_fake_broker(broker), trio.open_nursery() as nursery:
            gateway = await nursery.start(run)
            async with (
                group_client(gateway.address, "g") as client,
                group_client(gateway.address, "g") as other,
            ):
                joined = await client.native("n")
                commit = partial(client.commit, {0: 7}, member_id="n", epoch=joined.member_epoch)
                for _ in range(2):
                    await commit()
                    await other.fetch_offsets()  # the client's connection sleeps
                    await trio.testing.wait_all_tasks_blocked(0.01)
                broker.gate, broker.asked = trio.Event(), trio.Event()

                async def leave() -> None:
                    await broker.asked.wait()
                    leaves.set()

                nursery.start_soon(leave)
                with pytest.raises(UpstreamError):
                    await commit()


def _open_files() -> set[str]:
    return {descriptor.name for descriptor in Path("/proc/self/fd").iterdir()}
