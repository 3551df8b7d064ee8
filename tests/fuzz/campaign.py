"""Plays attacks at a gateway process and compares its state before and after."""

import itertools
import math
import os
import signal
import ssl
import struct
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import trio

from gateway.cluster.access import Access
from gateway.cluster.sasl import Credentials
from gateway.cluster.secret import Secret
from gateway.transport import certificates
from gateway.transport.certificates import CertificateFiles
from tests.fuzz import memory_in_use, neighbours, small_tables
from tests.fuzz.attacks import PASSWORD, USER, Attack, attack_of
from tests.fuzz.memory_in_use import MemoryInUse
from tests.fuzz.upstream import AttackedBroker
from tests.support.certificate_authority import CertificateAuthority
from tests.support.fake_broker import running_fake_broker
from tests.support.ports import HOST
from tests.support.serve_process import LogLine, ServeProcess, serving

TOGETHER = 64
"""Connections at a time."""
EOF_DELAY_S = 0.5
"""How long a client waits for answers before it closes its side, behind an incomplete frame."""
PATIENCE_S = 20.0
"""How long an attacker waits for the next answer: a JoinGroup may wait for other members, and the
gateway for a busy machine."""
UNPLAYED_MAX = 4 * TOGETHER
"""The number of connections in a row that may be cut, or get no answer, before a frame is played. A
busy machine may cut all that are open."""
BROKER_TIMEOUT_MS = 30_000
"""Longer than the machine may leave the broker without processor time. It is in this process."""
WARM_UP = 0.2
WARM_UP_FRAMES_MAX = 100_000
"""After this part of a campaign, the gateway has made what it keeps: caches, pools, groups, and the
tables of `small_tables`."""
LOOK_FRAMES = 100_000
"""Frames from one look at the memory to the next."""
GROWTH_MAX = MemoryInUse(resident_kib=32 * 1024, malloc_kib=4 * 1024, blocks=50_000)
"""By how much the memory may grow after the warm-up, however many frames follow. A block that every
50th frame leaves behind exceeds it in 2,500,000 frames. What is in use varies with the attackers of
the moment, and allocators keep more than that."""
CALM_LIMIT_S = 60
_LOOK_INTERVAL_S = 0.2
_RECEIVED_BYTES = 65536
_NO_PROBLEM = frozenset({"debug", "info", "warning"})
_SIZE = struct.Struct(">i")

# The memories of names are small, so that they are full after the warm-up.
FLAGS = (
    "--state=memory",
    "--group-initial-rebalance-delay-ms=0",
    "--max-groups=100",
    "--max-groups-per-address=90",
    "--max-names-per-address=250",
    "--max-names-per-principal=250",
    "--permission-lifetime-ms=60000",
    "--client-side-assignors=true",
    f"--group-consumer-session-timeout-ms={neighbours.SESSION_TIMEOUT_MS}",
    f"--broker-timeout-ms={BROKER_TIMEOUT_MS}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Which attacks are played, and how the gateway listens."""

    seed: int
    frames: int
    """Stop after this many."""
    limit_s: float = math.inf
    """Stop after this time, too."""
    first: int = 0
    """The number of the first connection."""
    tls: bool = False
    authenticates: bool = False
    together: int = TOGETHER

    @property
    def listens(self) -> str:
        """How the gateway listens, for a reader."""
        return f"{'TLS' if self.tls else 'plain text'}{' and SASL' * self.authenticates}"

    @property
    def replay(self) -> str:
        """The flags that choose this way to listen."""
        return f"--seed {self.seed}{' --tls' * self.tls}{' --sasl' * self.authenticates}"


@dataclass(slots=True)
class Outcome:
    """What was played and seen."""

    connections: int = 0
    frames: int = 0
    """Frames that the gateway has answered or refused."""
    rounds: int = 0
    """What the neighbours have finished meanwhile."""
    problems: list[str] = field(default_factory=list)
    memory: list[MemoryInUse] = field(default_factory=list)
    """After the warm-up, after each `LOOK_FRAMES`, and at the end."""
    cpu_s: float = 0.0
    """The processor time of the gateway."""


async def play(campaign: Campaign, tell: Callable[[Outcome], None] | None = None) -> Outcome:
    """Run a gateway, play the attacks, and return what was seen. `tell` learns what has been seen
    so far each time the memory is read."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="groupferry-fuzz-") as folder:
        async with _gateway(campaign, Path(folder)) as (gateway, access, client_tls):
            async with trio.open_nursery() as nursery:
                rounds: Callable[[], int] = await nursery.start(
                    neighbours.live, gateway, access, outcome.problems.append
                )
                await _calm(gateway)
                before = _open_files(gateway.pid)
                await _attack(campaign, gateway, client_tls, outcome, tell)
                if not outcome.problems:
                    await _look_after(gateway, before, outcome)
                outcome.rounds = rounds()
                outcome.cpu_s = _cpu_s(gateway.pid)
                nursery.cancel_scope.cancel()
            gateway.log.clear()
    return outcome


@asynccontextmanager
async def _gateway(
    campaign: Campaign, folder: Path
) -> AsyncIterator[tuple[ServeProcess, Access, ssl.SSLContext | None]]:
    flags, access, client_tls = list(FLAGS), Access(), None
    if campaign.tls:
        authority = CertificateAuthority.in_folder(folder / "certificates")
        files = authority.issue("listener", HOST)
        flags += [f"--tls-cert={files.cert}", f"--tls-key={files.key}"]
        client_tls = authority.trusting()
        tls = certificates.for_brokers(CertificateFiles(ca=authority.ca), check_host=True)
        access = Access(tls=tls)
    if campaign.authenticates:
        secret = folder / "password"
        secret.write_text(PASSWORD)
        flags += [
            "--upstream-security-protocol=sasl_plaintext",
            "--upstream-sasl-mechanism=PLAIN",
            f"--upstream-sasl-username={USER}",
            f"--upstream-sasl-password-file={secret}",
        ]
        credentials = Credentials(mechanism="PLAIN", username=USER, password=Secret(PASSWORD))
        access = Access(tls=access.tls, credentials=credentials)
    async with running_fake_broker(AttackedBroker()) as broker:
        host, port = broker.address
        config = folder / "groupferry.toml"
        config.touch()
        flags.append(f"--config={config}")
        program = f"{memory_in_use.PROGRAM}\n{small_tables.program()}"
        async with serving(f"{host}:{port}", folder / "state", *flags, program=program) as gateway:
            # Writing and reading a line for each refusal would take a third of the time.
            config.write_text('log_level = "warning"')
            os.kill(gateway.pid, signal.SIGHUP)
            yield gateway, access, client_tls


async def _attack(
    campaign: Campaign,
    gateway: ServeProcess,
    client_tls: ssl.SSLContext | None,
    outcome: Outcome,
    tell: Callable[[Outcome], None] | None,
) -> None:
    numbers = itertools.count(campaign.first)
    playing: set[int] = set()
    in_flight = unplayed = 0
    making = trio.Lock()
    end_s = trio.current_time() + campaign.limit_s

    def goes_on() -> bool:
        is_short = outcome.frames + in_flight < campaign.frames and trio.current_time() < end_s
        return is_short and not outcome.problems

    async def work() -> None:
        nonlocal in_flight, unplayed
        while True:
            async with making:  # one at a time, for the broker and the neighbours are here, too
                if not goes_on():
                    return
                number = next(numbers)
                playing.add(number)
                attack = attack_of(campaign.seed, number, authenticates=campaign.authenticates)
                in_flight += len(attack.frames)
                await trio.lowlevel.checkpoint()
            try:
                played = await _play_one(gateway.address, attack, client_tls)
            except OSError as error:
                outcome.problems.append(f"the gateway has ended: {error}")
                return
            in_flight -= len(attack.frames)
            outcome.frames += played
            outcome.connections += 1
            unplayed = 0 if played else unplayed + 1
            if unplayed == UNPLAYED_MAX:
                outcome.problems.append(f"{unplayed} connections in a row played nothing")
            playing.discard(number)

    async def watch(workers: trio.CancelScope) -> None:
        look_at_frames = min(WARM_UP * campaign.frames, WARM_UP_FRAMES_MAX)
        while True:
            suspects = sorted(playing)
            await trio.sleep(_LOOK_INTERVAL_S)
            for problem in _problems(gateway):
                replay = f"{campaign.replay} --first {suspects[0]} --frames 500 --together 1"
                outcome.problems.append(f"{problem}\nreplay: {replay}")
            if outcome.problems:
                workers.cancel()
                return
            if outcome.frames >= look_at_frames:
                await _look_at_memory(gateway, outcome)
                look_at_frames = outcome.frames + LOOK_FRAMES
                if tell is not None and outcome.memory:
                    tell(outcome)

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as workers:
            nursery.start_soon(watch, workers.cancel_scope)
            for _ in range(campaign.together):
                workers.start_soon(work)
        nursery.cancel_scope.cancel()
    for problem in _problems(gateway):
        outcome.problems.append(problem)


async def _play_one(
    address: tuple[str, int], attack: Attack, client_tls: ssl.SSLContext | None
) -> int:
    """Play one connection. Returns how many of its frames the gateway has answered or refused."""
    tcp = await trio.open_tcp_stream(*address)
    stream: trio.abc.Stream = tcp
    if client_tls is not None:
        stream = trio.SSLStream(tcp, client_tls, server_hostname=HOST, https_compatible=True)
    answers = _Answers(stream)
    try:
        if not await _open(stream, attack.opening, answers):
            return 0
        answers.count = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send_all, stream, attack.frames)
            await answers.reach(len(attack.frames))
            nursery.cancel_scope.cancel()
    finally:
        await trio.aclose_forcefully(stream)
    return min(answers.count + answers.have_ended, len(attack.frames))


async def _open(stream: trio.abc.Stream, opening: Sequence[bytes], answers: "_Answers") -> bool:
    """Play the handshakes of TLS and SASL. False if the gateway cuts them, or is silent."""
    with trio.move_on_after(PATIENCE_S), suppress(trio.BrokenResourceError):
        if isinstance(stream, trio.SSLStream):
            await stream.do_handshake()
        for number, frame in enumerate(opening, start=1):
            await stream.send_all(frame)
            if not await answers.reach(number):
                return False
        return True
    return False


async def _send_all(stream: trio.abc.Stream, frames: Iterable[bytes]) -> None:
    """Send all together, while the answers arrive: nobody could send on if nobody received."""
    with suppress(trio.BrokenResourceError):  # the gateway has refused one
        await stream.send_all(b"".join(frames))
        await trio.sleep(EOF_DELAY_S)  # what is in progress ends with the stream
        if isinstance(stream, trio.SocketStream):
            await stream.send_eof()


class _Answers:
    """What the gateway has answered on one connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.count = 0
        """The complete frames."""
        self.have_ended = False
        """The gateway has closed the connection."""
        self._stream = stream
        self._received = bytearray()

    async def reach(self, count: int) -> bool:
        """Wait for this many. False if the gateway closes the connection before, or is silent for
        `PATIENCE_S`."""
        while self.count < count and not self.have_ended:
            chunk: bytes | bytearray = b""
            with trio.move_on_after(PATIENCE_S) as scope, suppress(trio.BrokenResourceError):
                chunk = await self._stream.receive_some(_RECEIVED_BYTES)
            if scope.cancelled_caught:
                return False
            self.have_ended = not chunk
            self._take(chunk)
        return self.count >= count

    def _take(self, chunk: bytes | bytearray) -> None:
        received, at = self._received, 0
        received += chunk
        while at + _SIZE.size <= len(received):
            end = at + _SIZE.size + _SIZE.unpack_from(received, at)[0]
            if end > len(received):
                break
            self.count, at = self.count + 1, end
        del received[:at]


async def _look_after(gateway: ServeProcess, open_files: int, outcome: Outcome) -> None:
    """Wait until the gateway has forgotten the attackers, and look at what is left."""
    with trio.move_on_after(CALM_LIMIT_S):
        while _open_files(gateway.pid) > open_files:
            await trio.sleep(_LOOK_INTERVAL_S)
    now = _open_files(gateway.pid)
    if now > open_files:
        outcome.problems.append(f"{now} open files instead of {open_files}")
    # In a very short campaign it is the only look.
    await _look_at_memory(gateway, outcome)
    if outcome.memory:
        warm, last = outcome.memory[0], outcome.memory[-1]
        if any(
            now - then > growth_max
            for then, now, growth_max in zip(warm, last, GROWTH_MAX, strict=True)
        ):
            outcome.problems.append(f"memory: {last}, after the warm-up {warm}")
    outcome.problems += _problems(gateway)


async def _look_at_memory(gateway: ServeProcess, outcome: Outcome) -> None:
    try:
        outcome.memory.append(await memory_in_use.look(gateway))
    except (OSError, AssertionError) as error:
        outcome.problems.append(f"the gateway has ended: {error}")


async def _calm(gateway: ServeProcess) -> None:
    """Wait until the connections of the start have ended."""
    last = -1
    while (now := _open_files(gateway.pid)) != last:
        last = now
        await trio.sleep(5 * _LOOK_INTERVAL_S)


def _problems(gateway: ServeProcess) -> Iterator[str]:
    """What its log should not have since the last look."""
    lines, others = gateway.log[:], gateway.other_lines[:]
    del gateway.log[:], gateway.other_lines[:]
    yield from map(repr, others)
    yield from (f"{line}" for line in lines if not _is_expected(line))


def _is_expected(line: LogLine) -> bool:
    return line["level"] in _NO_PROBLEM and "exception" not in line


def _open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  # Path.iterdir opens it too


def _cpu_s(pid: int) -> float:
    """The processor time of a process; not a number if it has ended."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return math.nan
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
