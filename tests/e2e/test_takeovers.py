"""Gateways with one state log in the cluster: a second one takes the groups, and the first ends."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.cluster.errors import UpstreamError
from gateway.cluster.own_topics import made_or_found
from gateway.state_log.kafka.lease import LEASE_MS
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_client import GroupClient, fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.ports import HOST, free_port
from tests.support.releases import LAST_CLASSIC, NEWEST, on_release
from tests.support.serve_process import ServeProcess, command, serving
from tests.support.until import until_answered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

LIMIT_S = 90
LONG_SESSIONS = "--group-consumer-session-timeout-ms=45000"
"""Members are silent while a gateway starts, which is slow on a busy machine."""


@asynccontextmanager
async def gateway_on(
    cluster: KafkaCluster, folder: Path, topic: str
) -> AsyncIterator[ServeProcess]:
    """A gateway whose log is in the cluster, with one topic for the events of all gateways."""
    flags = (
        "--state=kafka",
        f"--state-topic={topic}",
        f"--events-topic={topic}-events",
        LONG_SESSIONS,
    )
    async with serving(cluster.bootstrap_servers, folder, *flags) as gateway:
        yield gateway


async def beat(client: GroupClient, epoch: int) -> ConsumerGroupHeartbeatResponse:
    """A heartbeat that is repeated, as clients do, while the coordinator is loading."""
    loading = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return await until_answered(
        lambda: client.native("n", epoch), lambda beaten: beaten.error_code not in loading
    )


async def test_a_second_gateway_takes_over_with_an_empty_disk(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Members continue there without noticing. The first gateway names the new owner and ends."""
    group = fresh_group("taken-over")
    with trio.fail_after(LIMIT_S):
        async with gateway_on(kafka, tmp_path / "first", group) as first:
            async with group_client(first.address, group) as client:
                native = await client.native("n")
                assert native.error_code == 0
            async with gateway_on(kafka, tmp_path / "second", group) as second:
                assert await first.wait_until_ended() == 1
                assert "has taken the state log" in await first.last_line()
                assert first.events("gateway_ended") == []  # it has not ended normally
                async with group_client(second.address, group) as client:
                    again = await beat(client, native.member_epoch)
                    assert (again.error_code, again.member_epoch) == (0, native.member_epoch)
                for unwanted in ("member_joined", "member_fenced", "group_epoch_bumped"):
                    assert second.events(unwanted) == []


@on_release(NEWEST)
async def test_a_gateway_that_cannot_serve_takes_no_log(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """A gateway finds out before it takes the log that its port or a broker's is in use, or that
    its events cannot be written. The first gateway continues and notices nothing."""
    group = fresh_group("kept")
    with trio.fail_after(LIMIT_S), socket.create_server((HOST, 0)) as other:
        in_use = other.getsockname()[1]
        port = free_port()
        (tmp_path / "second").mkdir()
        compacted = f"{group}-compacted"
        await trio.to_thread.run_sync(
            partial(
                made_or_found,
                {"bootstrap.servers": kafka.bootstrap_servers},
                compacted,
                partitions=1,
                settings={"cleanup.policy": "compact"},
            )
        )
        ports = {"listen_port": port, "ports": {str(node_id): in_use for node_id in kafka.brokers}}
        (tmp_path / "second" / "broker_ports.json").write_text(json.dumps(ports))
        async with gateway_on(kafka, tmp_path / "first", group) as first:
            for bootstrap, events_topic in (
                (f"{HOST}:{in_use}", f"{group}-events"),
                (f"{HOST}:{port}", f"{group}-events"),
                (f"{HOST}:{free_port()}", compacted),
            ):
                done = await trio.run_process(
                    command(
                        kafka.bootstrap_servers,
                        bootstrap,
                        tmp_path / "second",
                        "--state=kafka",
                        f"--state-topic={group}",
                        f"--events-topic={events_topic}",
                    ),
                    capture_stderr=True,
                    check=False,
                )
                assert done.returncode == 1, done.stderr
            async with group_client(first.address, group) as client:
                assert (await beat(client, 0)).error_code == 0
            assert first.events("state_log_claimed") == []
            assert first.events("state_log_lost") == []


@on_release(NEWEST)
async def test_a_replaced_gateway_sends_no_outdated_answer_after_a_pause(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Requests that members sent meanwhile are answered with NOT_COORDINATOR, or not at all."""
    group = fresh_group("paused")
    answers: list[int] = []

    async def ask(client: GroupClient, epoch: int) -> None:
        try:
            answers.append((await client.native("n", epoch)).error_code)
        except UpstreamError:
            answers.append(ErrorCode.NOT_COORDINATOR)

    with trio.fail_after(LIMIT_S):
        async with gateway_on(kafka, tmp_path / "first", group) as first:
            async with group_client(first.address, group) as client, trio.open_nursery() as nursery:
                native = await client.native("n")
                first.pause()
                nursery.start_soon(ask, client, native.member_epoch)
                async with gateway_on(kafka, tmp_path / "second", group) as second:
                    await trio.sleep(LEASE_MS / 1000)  # of the first, which is paused
                    first.go_on()
                    assert await first.wait_until_ended() == 1
                    async with group_client(second.address, group) as moved:
                        again = await beat(moved, native.member_epoch)
                        assert again.error_code == 0
    assert answers == [ErrorCode.NOT_COORDINATOR]


@on_release(LAST_CLASSIC)
async def test_a_paused_gateway_that_was_not_replaced_continues(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The gateway confirms that it still owns the log, and members stay."""
    group = fresh_group("resumed")
    with trio.fail_after(LIMIT_S):
        async with gateway_on(kafka, tmp_path, group) as gateway:
            async with group_client(gateway.address, group) as client:
                native = await client.native("n")
                gateway.pause()
                await trio.sleep(2 * LEASE_MS / 1000)
                gateway.go_on()
                answer = await beat(client, native.member_epoch)
                assert (answer.error_code, answer.member_epoch) == (0, native.member_epoch)
