"""Hostile bytes cause no error in the gateway, hold no memory, and do not disturb other groups.

`python -m tests.fuzz` plays more of them, and replays the connections that a failure names.
"""

import itertools
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import trio

from gateway.cluster.errors import UpstreamError
from gateway.data_path import client_frames
from gateway.data_path.api_table import API_TABLE
from tests.fuzz import __main__ as command
from tests.fuzz import campaign, neighbours, small_tables
from tests.fuzz.attacks import FRAMES_MAX, Attack, attack_of, corpus
from tests.fuzz.campaign import Campaign, play
from tests.support.certificate_authority import CertificateAuthority
from tests.support.ports import HOST
from tests.support.serve_process import PROGRAM, ServeProcess, serving

SEED = 17
Listening = partial(Campaign, seed=SEED)
LEAK = """
from gateway.data_path.connection import ClientConnection
kept, serve = [], ClientConnection.serve
def leak(self):
    kept.append([object() for _ in range(10_000)])
    return serve(self)
ClientConnection.serve = leak
"""
"""A bug of the gateway: each connection leaves small objects behind."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "listening",
    [
        pytest.param(Listening(frames=24_000), id="plaintext"),
        pytest.param(Listening(frames=18_000, authenticates=True), id="SASL"),
        pytest.param(Listening(frames=8_000, authenticates=True, tls=True), id="SASL and TLS"),
    ],
)
async def test_hostile_bytes_cost_only_their_sender(listening: Campaign) -> None:
    """No error or traceback, no file left open, no memory kept, no wrong answer to a healthy mixed
    group."""
    outcome = await play(listening)
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.frames >= listening.frames
    assert outcome.rounds > 0


@pytest.mark.timeout(120)
async def test_a_disturbed_group_ends_the_campaign_with_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was played until then is still reported."""

    async def fail_to_answer(*_args: object, **_more: object) -> None:
        raise UpstreamError("no answer")

    monkeypatch.setattr(neighbours, "_play_round", fail_to_answer)
    outcome = await play(Listening(frames=1_000_000))
    (problem,) = outcome.problems
    assert problem.startswith("round 0 of the neighbours: UpstreamError('no answer'), while the")
    assert outcome.cpu_s > 0


@pytest.mark.timeout(120)
async def test_a_round_without_processor_time_is_played_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A starved round says something about the machine only. A machine that is always busy is no
    excuse."""
    tries = itertools.count(1)
    waited_s = itertools.count(0, neighbours.STARVED_S)

    async def fails(*_args: object, **_more: object) -> None:
        next(tries)
        raise UpstreamError("no answer")

    monkeypatch.setattr(neighbours, "_play_round", fails)
    monkeypatch.setattr(neighbours, "_processor_times_s", lambda _pid: (0.0, next(waited_s)))
    monkeypatch.setattr(neighbours, "INTERVAL_S", 0.1)
    outcome = await play(Listening(frames=1_000_000))
    (problem,) = outcome.problems
    assert problem.startswith("round 0 of the neighbours: UpstreamError('no answer')")
    assert next(tries) == neighbours.STARVED_ROUNDS_MAX + 2


@pytest.mark.timeout(240)
async def test_memory_that_grows_after_the_warm_up_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look is told, so that a long campaign shows its curve before it ends."""
    monkeypatch.setattr(small_tables, "program", lambda: f"{LEAK}\n{PROGRAM}")
    monkeypatch.setattr(campaign, "LOOK_FRAMES", 500)
    reported: list[int] = []
    listening = Listening(frames=8_000, together=4)
    outcome = await play(listening, lambda so_far: reported.append(so_far.frames))
    assert reported[0] >= campaign.WARM_UP * 8_000
    assert 1 < len(reported) < len(outcome.memory)
    (problem,) = outcome.problems
    assert problem == f"memory: {outcome.memory[-1]}, after the warm-up {outcome.memory[0]}"


async def _cut(stream: trio.SocketStream, *, reads: bool) -> None:
    """Reset the connection, before or after its first bytes."""
    if reads:
        await stream.receive_some(1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await trio.aclose_forcefully(stream)


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("tls", [False, True])
async def test_a_connection_that_is_cut_in_its_handshake_has_played_nothing(
    *, tls: bool, reads: bool, tmp_path: Path
) -> None:
    """A busy gateway ends a handshake that takes too long. The campaign continues."""
    client_tls = CertificateAuthority.in_folder(tmp_path).trusting() if tls else None
    attack = Attack(opening=(bytes(100_000),) * 2, frames=(b"", b""))
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, partial(_cut, reads=reads), 0, host=HOST)
        (listener,) = await nursery.start(serve)
        address = listener.socket.getsockname()[:2]
        for _ in range(20):
            assert await campaign._play_one(address, attack, client_tls) == 0
        nursery.cancel_scope.cancel()


@pytest.mark.timeout(120)
async def test_a_gateway_that_cuts_all_connections_ends_the_campaign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its frames would never be played."""

    async def plays_nothing(*_args: object) -> int:
        await trio.lowlevel.checkpoint()
        return 0

    monkeypatch.setattr(campaign, "_play_one", plays_nothing)
    outcome = await play(Listening(frames=1_000_000))
    assert outcome.problems == [f"{campaign.UNPLAYED_MAX} connections in a row played nothing"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("warm_up", [campaign.WARM_UP, 0.0])
async def test_a_gateway_that_ends_is_a_problem(
    warm_up: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so, even if its memory was just to be read."""
    gateways: list[ServeProcess] = []

    @asynccontextmanager
    async def noting_gateways(*args: Any, **more: Any) -> AsyncIterator[ServeProcess]:
        async with serving(*args, **more) as gateway:
            gateways.append(gateway)
            yield gateway

    play_one = campaign._play_one

    async def kill_first(*args: Any) -> int:
        await gateways[0].kill()
        return await play_one(*args)

    monkeypatch.setattr(campaign, "serving", noting_gateways)
    monkeypatch.setattr(campaign, "_play_one", kill_first)
    monkeypatch.setattr(campaign, "WARM_UP", warm_up)
    outcome = await play(Listening(frames=1_000_000))
    # The neighbours may notice it first, and say it in their own words.
    assert [problem for problem in outcome.problems if "ended" in problem]


def test_a_run_of_both_has_half_of_the_frames_at_each_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A problem of either one is one of the run."""
    played: list[set[str]] = []

    async def play_one(command_line: list[str], *, check: bool) -> CompletedProcess[bytes]:
        assert not check
        assert command_line[:3] == [sys.executable, "-m", "tests.fuzz"]
        played.append(set(command_line[3:]))
        return CompletedProcess(command_line, 1 if "--tls" in command_line else 0)

    monkeypatch.setattr("trio.run_process", play_one)
    monkeypatch.setattr("sys.argv", ["fuzz", "--both", "--frames", "1000", "--seed", "3"])
    assert command.main() == 1
    assert all({"--frames=500", "--seed=3"} <= flags for flags in played)
    assert [flags >= {"--tls", "--sasl"} for flags in sorted(played, key=len)] == [False, True]


def test_the_attacked_gateway_has_small_tables() -> None:
    """Each is smaller than a real gateway's, by the name that it has now."""
    for module, bounds in small_tables.TABLES.items():
        for name, bound in bounds.items():
            assert getattr(import_module(module), name) > bound, (module, name)
    assert client_frames._decode_remembered.cache_info().maxsize == client_frames.HEARTBEATS_MAX
    assert client_frames.HEARTBEATS_MAX > small_tables.DECODED_MAX
    compile(small_tables.program(), "program", "exec")


def test_every_version_of_every_api_is_played() -> None:
    """Each has at least one request."""
    versions = {
        (key, version)
        for key, entry in API_TABLE.items()
        for version in range(entry.min_version, entry.max_version + 1)
    }
    played = {(key, version) for requests in corpus().values() for key, version, _body in requests}
    assert played == versions


def test_an_attack_can_be_played_again() -> None:
    """Its bytes depend on nothing but the seed and its number."""

    def attacks(seed: int) -> list[Attack]:
        return [attack_of(seed, number, authenticates=True) for number in range(20)]

    assert attacks(SEED) == attacks(SEED)
    assert attacks(SEED) != attacks(SEED + 1)
    assert all(len(attack.frames) <= FRAMES_MAX for attack in attacks(SEED))
