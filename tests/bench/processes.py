"""The processes of a benchmark: compiled programs, servers under load, the load itself.

A peer that this machine lacks raises `PeerMissing` with its name; the benchmark continues without
it.
"""

import ctypes
import fcntl
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.installs import install_once, run
from tests.support.ports import HOST, free_port, is_open

START_LIMIT_S = 60
_LOOK_INTERVAL_S = 0.05
_NATIVE = Path(__file__).parent / "native"
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_CPUCLOCK_SCHED = 2
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


class PeerMissing(Exception):
    """A peer that this machine cannot run."""


@contextmanager
def required_peer(name: str) -> Iterator[None]:
    """What tests skip without is a missing peer here. PeerMissing."""
    try:
        yield
    except pytest.skip.Exception as reason:
        raise PeerMissing(f"{name}: {reason}") from None


def compile_native(name: str, *flags: str) -> Path:
    """The program, or with other flags the library, made from `native/NAME.c`, compiled once per
    source."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise PeerMissing(f"{name}: there is no C compiler (cc)")
    source = _NATIVE / f"{name}.c"

    def compile_to(folder: Path) -> None:
        command = [compiler, "-O2", "-Wall", "-Wextra", *flags]
        run([*command, "-o", f"{folder / name}", f"{source}"])

    with required_peer(name):
        folder = install_once(f"bench-{name}", source.read_bytes(), compile_to)
    return folder / name


def enter_private_network() -> bool:
    """Move this process, which must have one thread, into a network of its own with a loopback, so
    that no other traffic and no congestion control for long distances distorts the figures. False
    where that needs more rights."""
    if ctypes.CDLL(None).unshare(_CLONE_NEWNET):
        return False
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
    Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
    return True


def allow_many_connections() -> None:
    """Let this process and its children open as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def one_core(*servers: "Server") -> Iterator[None]:
    """Run the servers, and what this process starts, on the same core within the block."""
    before = os.sched_getaffinity(0)
    pids = [os.getpid(), *(server.pid for server in servers)]

    def pin(cores: set[int]) -> None:
        for pid in pids:
            for task in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), cores)

    pin({min(before)})
    try:
        yield
    finally:
        pin(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A process that answers at a port of the loopback."""

    port: int
    pid: int

    @property
    def cpu_ns(self) -> int:
        """The processor time of all its threads, ended ones too, as the scheduler counted it."""
        return time.clock_gettime_ns((~self.pid << 3) | _CPUCLOCK_SCHED)

    @property
    def memory_kib(self) -> int:
        """Its memory; shared pages count by their share."""
        rows = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        (row,) = (row for row in rows if row.startswith("Pss:"))
        return int(row.split()[1])

    @property
    def resident_kib(self) -> int:
        """Its memory, with all of the shared pages."""
        return self._status("VmRSS")

    @property
    def peak_kib(self) -> int:
        """The most that was resident."""
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        rows = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith(f"{name}:"))


@contextmanager
def running(name: str, command: Sequence[str], port: int) -> Iterator[Server]:
    """Run a server within the block, once its port is open. It does not outlive this process."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={k: v for k, v in os.environ.items() if not k.startswith("GROUPFERRY_")},
            preexec_fn=die_with_parent,  # noqa: PLW1509  # this process may be killed
        )
        try:
            end_s = time.monotonic() + START_LIMIT_S
            while not is_open(port):
                if process.poll() is not None or time.monotonic() > end_s:
                    output.seek(0)
                    sys.exit(f"{name} did not start: {output.read().decode(errors='replace')}")
                time.sleep(_LOOK_INTERVAL_S)
            try:
                yield Server(port=port, pid=process.pid)
            finally:
                if process.poll() is not None:
                    output.seek(0)
                    sys.exit(f"{name} ended: {output.read().decode(errors='replace')}")
        finally:
            process.kill()
            process.wait()


@contextmanager
def gateway(
    upstream: str, *flags: str, program: Sequence[str] = ("-m", "gateway")
) -> Iterator[Server]:
    """`groupferry serve`, with its state in a file. `program` is what Python runs."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="groupferry-bench-") as folder:
        command = [
            *(sys.executable, *program, "serve", f"--upstream={upstream}"),
            *(f"--listen={HOST}:{port}", f"--state-dir={folder}"),
            *("--log-format=json", "--groups-host=*"),
            *("--max-connections=9000", "--max-connections-per-address=9000", *flags),
        ]
        with running("groupferry", command, port) as server:
            yield server


@contextmanager
def storing_broker(delay_ms: int = 0) -> Iterator[Server]:
    """A broker that stores commits, and answers so much later."""
    port = free_port()
    program = Path(__file__).with_name("fake_broker.py")
    with running(
        "broker", [sys.executable, f"{program}", f"{port}", f"{delay_ms}"], port
    ) as server:
        yield server


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Prepared requests, and what their answers must be like."""

    frames: Sequence[bytes]
    answer_bytes: int
    """The size of an answer, with its size field."""
    error_at: int = -1
    """The place of the error code in an answer, which must be 0; -1 if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a number of requests cost."""

    wall_us: float
    """Wall time per request."""
    cpu_us: float
    """The server's processor time per request."""
    median_us: float
    p99_us: float
    worst_p99_us: float
    """The p99 of the slowest connection."""


class Load:
    """Connections that send requests to a server, each the next one after its answer."""

    def __init__(self, process: "subprocess.Popen[str]", server: Server) -> None:
        self._process = process
        self._server = server

    def measure(self, count: int) -> Sample:
        """Send this many requests over all connections."""
        assert self._process.stdin is not None
        before_ns = self._server.cpu_ns
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        wall, median, p99, worst = map(int, self._line().split())
        cpu = self._server.cpu_ns - before_ns
        return Sample(
            wall_us=wall / count / 1000,
            cpu_us=cpu / count / 1000,
            median_us=median / 1000,
            p99_us=p99 / 1000,
            worst_p99_us=worst / 1000,
        )

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            assert self._process.stderr is not None
            sys.exit(f"port {self._server.port}: {self._process.stderr.read().strip()}")
        return line

    def until_ready(self) -> None:
        """Wait until every connection has had its first answer."""
        assert self._line() == "ready\n"


@contextmanager
def load(
    server: Server, requests: Requests, connections: int, port: int | None = None
) -> Iterator[Load]:
    """Connections to the server, or to another of its ports, for the length of the block."""
    with tempfile.NamedTemporaryFile() as frames:
        frames.write(b"".join(requests.frames))
        frames.flush()
        command = [
            *(f"{compile_native('load')}", f"{port or server.port}", f"{connections}"),
            *(f"{requests.answer_bytes}", f"{requests.error_at}", frames.name),
        ]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # this process may be killed
        ) as process:
            try:
                sending = Load(process, server)
                sending.until_ready()
                yield sending
            finally:
                process.kill()


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
