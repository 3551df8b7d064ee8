"""The start and the end of the gateway."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from gateway import serve, settings_sources, start_checks
from gateway.cluster import broker_connection, cluster
from gateway.cluster.errors import LOOK_AT_UPSTREAM
from gateway.error_groups import first_of
from gateway.fleet.fleet_state import control_folders, open_state, read_state, write_state
from gateway.fleet.member import SHARDS
from gateway.fleet.parent import FleetPlan
from gateway.journal.line_files import FOLDER_NAME
from gateway.reloading import Reloading, limits_of
from gateway.security import security_of
from gateway.settings import Settings
from gateway.state_folder import StateFolderError, cluster_of, lock_folder
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from tests.support.fake_broker import running_fake_broker
from tests.support.group_client import group_client, parked_join
from tests.support.mock_cluster import running_mock_cluster
from tests.support.offset_broker import OffsetBroker
from tests.support.ports import free_port
from tests.support.wire import open_wire, request_frame

GOLDEN = Path(__file__).parents[1] / "golden"
PROGRAM = "import sys; from gateway.cli import main; sys.exit(main())"


def test_an_unreachable_cluster_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is 1, and there is no traceback."""
    port = free_port()
    flags = {"upstream": f"127.0.0.1:{port}", "state_dir": f"{tmp_path}"}
    assert serve.run(settings_sources.load(flags), partial(settings_sources.load, flags)) == 1
    complaint = capsys.readouterr().err.splitlines()
    assert complaint == [
        f"groupferry: cannot connect to 127.0.0.1:{port}: Connection refused; {LOOK_AT_UPSTREAM}"
    ]


@contextmanager
def deaf_address() -> Iterator[tuple[str, Callable[[], int]]]:
    """An address that accepts connections and never answers, and how many it has got."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.setblocking(False)

        def connections() -> int:
            connections = 0
            with suppress(BlockingIOError):
                while True:
                    deaf.accept()[0].close()
                    connections += 1
            return connections

        yield f"127.0.0.1:{deaf.getsockname()[1]}", connections


async def start_and_stop(
    folder: Path, upstream: str | tuple[str, int], state: str = "sqlite"
) -> None:
    """Run a gateway from its start to its end."""
    if not isinstance(upstream, str):
        upstream = "{}:{}".format(*upstream)
    port = f"127.0.0.1:{free_port()}"
    flags = {"upstream": upstream, "state_dir": f"{folder}", "listen": port, "state": state}
    loaded = settings_sources.load(flags)
    security, stop = security_of(loaded), trio.Event()
    reloading = Reloading(loaded, lambda: loaded, security=security, limits=limits_of(loaded))
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve._run_settings, loaded, security, reloading, stop)
            stop.set()


@pytest.mark.parametrize(
    "flags", [{}, {"events_topic": "events"}, {"state": "kafka"}], ids=["plain", "events", "state"]
)
def test_a_hanging_cluster_is_reported_and_given_up(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: dict[str, str],
) -> None:
    """This holds for any first connection to the cluster."""
    monkeypatch.setattr(serve, "QUIET_START_S", 0.1)
    monkeypatch.setattr(broker_connection, "REQUEST_TIMEOUT_S", 1.0)
    monkeypatch.setattr(cluster, "BOOTSTRAP_TIMEOUT_S", 0.5)
    with deaf_address() as (upstream, connections), capture_logs() as lines:
        loaded = settings_sources.load({"upstream": upstream, "state_dir": f"{tmp_path}", **flags})
        assert serve.run(loaded, lambda: loaded) == 1
        assert connections() == 1
    assert capsys.readouterr().err == (
        f"groupferry: {upstream} did not answer in 0.5 s; {LOOK_AT_UPSTREAM}\n"
    )
    assert [line["event"] for line in lines] == ["cluster_awaited"]


async def test_a_start_waits_once_for_an_address_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log names the address. Everything else asks the address that has answered."""
    monkeypatch.setattr(cluster, "BOOTSTRAP_TIMEOUT_S", 2.0)
    broker = OffsetBroker()
    with deaf_address() as (deaf, connections), capture_logs() as lines:
        async with running_fake_broker(broker):
            await start_and_stop(tmp_path, f"{deaf},127.0.0.1:{broker.address[1]}")
        assert connections() == 1
    reasons = [line["reason"] for line in lines if line["event"] == "bootstrap_address_failed"]
    assert reasons == [f"{deaf} did not answer in 2 s"]


async def test_a_gateway_starts_although_a_broker_hides_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker does not delay the start for longer than CHECK_TIMEOUT_S either."""
    monkeypatch.setattr(start_checks, "CHECK_TIMEOUT_S", 0.1)
    broker = OffsetBroker()

    async def hang(*_: object) -> None:
        await trio.sleep_forever()

    broker.handlers[ApiKey.HEARTBEAT] = hang
    async with running_fake_broker(broker):
        await start_and_stop(tmp_path, f"127.0.0.1:{broker.address[1]}")


# -- which cluster ---------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["sqlite", "memory"])
async def test_a_state_folder_serves_the_cluster_that_it_first_met(
    tmp_path: Path, state: str
) -> None:
    """Another one is refused before it is used: the gateway asks it only for its id. An id is
    remembered once the folder has met one."""
    async with running_fake_broker(OffsetBroker(cluster_id=None)) as nameless:
        await start_and_stop(tmp_path, nameless.address, state=state)
    async with running_fake_broker(OffsetBroker(cluster_id="here")) as broker:
        for _ in range(2):
            await start_and_stop(tmp_path, broker.address, state=state)
        assert cluster_of(tmp_path) == "here"
    for other in (OffsetBroker(cluster_id="there"), OffsetBroker(cluster_id=None)):
        async with running_fake_broker(other):
            with pytest.raises(BaseExceptionGroup) as refused:
                await start_and_stop(tmp_path, other.address, state=state)
        error = first_of(refused.value)
        assert isinstance(error, StateFolderError)
        assert str(error).startswith(f"the state folder {tmp_path} belongs to cluster here")
        assert {header.api_key for header in other.seen} <= {ApiKey.API_VERSIONS, ApiKey.METADATA}


async def test_a_state_folder_of_0_2_0_takes_the_cluster_that_it_meets(tmp_path: Path) -> None:
    """The cluster has its groups."""
    shutil.copy(GOLDEN / "state_v1.sqlite", tmp_path / "state.sqlite")
    async with running_fake_broker(OffsetBroker(cluster_id="here")) as broker:
        await start_and_stop(tmp_path, broker.address)
    assert cluster_of(tmp_path) == "here"


# -- as a process ----------------------------------------------------------------------------------


@asynccontextmanager
async def process(
    folder: Path, upstream: tuple[str, int], port: int, **options: Any
) -> AsyncIterator[trio.Process]:
    """`groupferry serve`, killed at the end of the block."""
    arguments = [f"--upstream={upstream[0]}:{upstream[1]}", f"--listen=127.0.0.1:{port}"]
    arguments += [f"--state-dir={folder}", "--group-initial-rebalance-delay-ms=60000"]
    async with trio.open_nursery() as nursery:
        options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE} | options
        run = partial(trio.run_process, check=False, **options)
        command = [sys.executable, "-c", PROGRAM, "serve", *arguments]
        started: trio.Process = await nursery.start(run, command)
        yield started
        nursery.cancel_scope.cancel()


async def complaint_of(folder: Path, port: int) -> str:
    """The line with which a gateway that cannot start ends. The exit status is 1, and there is no
    traceback."""
    with trio.fail_after(20):
        async with (
            running_mock_cluster(1) as upstream,
            process(folder, upstream.bootstrap[0], port) as gateway,
        ):
            assert gateway.stderr is not None
            output = b"".join([chunk async for chunk in gateway.stderr]).decode()
            assert await gateway.wait() == 1
    assert "Traceback" not in output
    return output.splitlines()[-1]


async def test_a_single_gateway_is_reached_where_a_fleet_was(tmp_path: Path) -> None:
    """Whatever state it keeps: commands look for its socket in the state folder."""
    write_state(tmp_path, open_state(tmp_path, 2))
    async with running_mock_cluster(1) as upstream:
        await start_and_stop(tmp_path, upstream.bootstrap[0], "memory")
    assert control_folders(tmp_path) == [tmp_path]


def test_a_process_that_starts_later_has_the_settings_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent has read them again, as all processes have."""
    flags = {"upstream": "127.0.0.1:9092", "state_dir": f"{tmp_path}", "processes": "2"}
    adoptions: list[str] = []

    def run_fleet(slots: int, shards: int, plan: FleetPlan) -> int:
        assert (slots, shards) == (2, SHARDS)
        for number in (1, 2):
            here, there = socket.socketpair()
            with here, there:
                plan.prepare(1, (0,) * SHARDS, ())(there)
            plan.reload()
            plan.record_owners((1,) * SHARDS)
            assert plan.number_run() == 2 * number
        return 0

    def run_process(settings: Settings, *_: Any) -> int:
        adoptions.append(settings.groups_adopt)
        return 0

    monkeypatch.setattr(serve, "run_fleet", run_fleet)
    monkeypatch.setattr(serve, "_run_process", run_process)
    monkeypatch.setattr(serve, "name_process", lambda _slot: None)
    monkeypatch.setattr(serve, "configure", lambda *_, **__: None)
    monkeypatch.setattr("gateway.serve.gc.set_threshold", lambda _objects: None)
    later = settings_sources.load({**flags, "groups_adopt": "never"})
    serve.run(settings_sources.load(flags), lambda: later)
    assert adoptions == ["manual", "never"]
    state = read_state(tmp_path)
    assert state is not None
    assert (state.runs, state.owners) == (4, (1,) * SHARDS)


async def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    """The line names the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        complaint = await complaint_of(tmp_path, port)
    assert complaint.startswith("groupferry: ")
    assert str(port) in complaint


async def test_an_unusable_state_log_is_one_line(tmp_path: Path) -> None:
    """The line names the file, and what to do."""
    (tmp_path / "state.sqlite").write_bytes(b"nonsense")
    complaint = await complaint_of(tmp_path, free_port())
    assert complaint.startswith(f"groupferry: {tmp_path / 'state.sqlite'}: file is not a database.")


async def until_said(gateway: trio.Process, word: str) -> None:
    """Wait for a log line."""
    assert gateway.stderr is not None
    output = b""
    while word.encode() not in output:
        more = await gateway.stderr.receive_some()
        assert more, output
        output += more


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_the_gateway(tmp_path: Path, number: signal.Signals) -> None:
    """Requests in flight are answered, new clients are refused, and the exit status is 0."""
    port = free_port()
    with trio.fail_after(30):
        async with (
            running_mock_cluster(1) as upstream,
            process(tmp_path, upstream.bootstrap[0], port) as gateway,
        ):
            await until_said(gateway, "serves clients")
            async with group_client(("127.0.0.1", port), "g") as client:
                async with trio.open_nursery() as nursery:

                    async def wait() -> None:
                        answer = await parked_join(client)
                        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

                    nursery.start_soon(wait)
                    await until_said(gateway, "joined with the classic protocol")
                    gateway.send_signal(number)
                assert await gateway.wait() == 0
            with pytest.raises(OSError, match="all attempts to connect"):
                await trio.open_tcp_stream("127.0.0.1", port)


async def test_a_signal_ends_a_starting_gateway(tmp_path: Path) -> None:
    """The cluster does not answer, and the gateway does not wait for it."""
    with trio.fail_after(20), socket.create_server(("127.0.0.1", 0)) as deaf:
        async with process(tmp_path, deaf.getsockname(), free_port()) as gateway:
            accepted, _ = await trio.to_thread.run_sync(deaf.accept)
            with accepted, trio.fail_after(5):
                gateway.send_signal(signal.SIGTERM)
                assert await gateway.wait() == 0


async def test_sighup_ends_nothing_and_takes_new_settings(tmp_path: Path) -> None:
    """A client beyond the limit is served once the limit is raised. The first one stays."""
    port, config = free_port(), tmp_path / "gateway.toml"
    config.write_text("max_connections = 1\n")
    environment = {**os.environ, "GROUPFERRY_CONFIG": f"{config}"}
    versions = request_frame(ApiKey.API_VERSIONS, 0, 1, b"")
    with trio.fail_after(30):
        async with (
            running_mock_cluster(1) as upstream,
            process(tmp_path, upstream.bootstrap[0], port, env=environment) as gateway,
        ):
            await until_said(gateway, "bootstrap_listener_opened")
            async with open_wire(("127.0.0.1", port)) as first:
                await first.send(versions)
                await first.frame()
                async with open_wire(("127.0.0.1", port)) as second:
                    assert await second.at_end()
                config.write_text("max_connections = 4\n")
                gateway.send_signal(signal.SIGHUP)
                await until_said(gateway, "reloaded")
                async with open_wire(("127.0.0.1", port)) as second:
                    for client in (first, second):
                        await client.send(versions)
                        await client.frame()
            gateway.send_signal(signal.SIGTERM)
            assert await gateway.wait() == 0


async def test_a_lost_terminal_drains_the_gateway(tmp_path: Path) -> None:
    """The system sends SIGHUP when the window closes, and no line can be written."""
    port = free_port()
    ours, theirs = os.openpty()
    with trio.fail_after(30):
        async with (
            running_mock_cluster(1) as upstream,
            process(
                tmp_path,
                upstream.bootstrap[0],
                port,
                stderr=theirs,
                start_new_session=True,
                preexec_fn=partial(fcntl.ioctl, theirs, termios.TIOCSCTTY, 0),
            ) as gateway,
        ):
            os.close(theirs)
            output = b""
            async with trio.lowlevel.FdStream(ours) as terminal:
                while b"gateway_started" not in output:
                    output += await terminal.receive_some()
            assert await gateway.wait() == 0
    (file,) = (tmp_path / FOLDER_NAME).iterdir()
    events = [json.loads(line)["event"] for line in file.read_text().splitlines()]
    assert events[-3:] == ["drain_started", "drain_finished", "gateway_ended"]


async def test_a_second_signal_ends_the_drain(tmp_path: Path) -> None:
    """A client with a partial request is not waited for."""
    port = free_port()
    environment = {**os.environ, "GROUPFERRY_DRAIN_TIMEOUT_MS": "600000"}
    with trio.fail_after(30):
        async with (
            running_mock_cluster(1) as upstream,
            process(tmp_path, upstream.bootstrap[0], port, env=environment) as gateway,
        ):
            await until_said(gateway, "serves clients")  # before, a signal ends it immediately
            async with open_wire(("127.0.0.1", port)) as client:
                half = b"\0\0\0\x20\0"
                await client.send(request_frame(ApiKey.API_VERSIONS, 0, 1, b"") + half)
                await client.frame()  # bytes after that request have been read as well
                gateway.send_signal(signal.SIGTERM)
                await until_said(gateway, "drain_started")
                assert gateway.poll() is None, "nothing is left to be in a hurry about"
                gateway.send_signal(signal.SIGTERM)
                assert await gateway.wait() == 0


def test_a_state_folder_in_use_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is 1, without a traceback or a connection to the cluster."""
    flags = {"upstream": f"127.0.0.1:{free_port()}", "state_dir": f"{tmp_path}"}
    with lock_folder(tmp_path):
        assert serve.run(settings_sources.load(flags), partial(settings_sources.load, flags)) == 1
    (complaint,) = capsys.readouterr().err.splitlines()
    assert complaint.startswith(f"groupferry: the state folder {tmp_path} is in use by another")


async def test_an_advertised_name_without_an_address_is_a_warning_at_start(tmp_path: Path) -> None:
    """The name may be known only where the clients run, so the gateway starts all the same."""
    environment = {**os.environ, "GROUPFERRY_ADVERTISE": "no-such-host.invalid"}
    with trio.fail_after(30):
        async with (
            running_mock_cluster(1) as upstream,
            process(tmp_path, upstream.bootstrap[0], free_port(), env=environment) as gateway,
        ):
            await until_said(gateway, "advertise_unresolved")
            await until_said(gateway, "serves clients")
