"""Commands at the socket: answers, limits, and clients that misbehave."""

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.control import server
from gateway.control.client import give
from gateway.control.control_socket import SOCKET_NAME, connect
from gateway.control.lines import receive_line
from gateway.control.messages import (
    ANSWER_BYTES_MAX,
    COMMAND_BYTES_MAX,
    SHUTS_DOWN,
    AdoptCommand,
    AdoptionAnswer,
    Answer,
    Command,
    CommandRefused,
)
from gateway.control.server import CONNECTIONS_MAX, GetAnswer, serve_commands

COMMAND = AdoptCommand(group_id="g")
DONE = AdoptionAnswer(group_id="g", is_adopted=True, held_ms=120)


async def succeed(_command: Command, _by: str) -> Answer:
    """A command that succeeds at once."""
    return DONE


async def endless(_command: Command, _by: str) -> Answer:
    """A command without an end."""
    await trio.sleep_forever()
    raise AssertionError


@asynccontextmanager
async def serving(
    folder: Path, get_answer: GetAnswer = succeed
) -> AsyncIterator[Callable[[], None]]:
    """A server for the length of the block; call what it yields to stop it earlier."""
    stop = trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve_commands, folder, get_answer, stop=stop))
            yield stop.set
            stop.set()


async def answer(folder: Path, line: bytes | None = None) -> dict[str, Any]:
    """The answer to a line."""
    async with await connect(folder) as client:
        await client.send_all(line or COMMAND.model_dump_json().encode() + b"\n")
        decoded: dict[str, Any] = json.loads(await receive_line(client, ANSWER_BYTES_MAX))
        return decoded


async def test_a_command_is_answered_to_a_giver_who_is_known(tmp_path: Path) -> None:
    """The system knows the process, and its user."""
    givers: list[str] = []

    async def note(_: Command, given_by: str) -> Answer:
        givers.append(given_by)
        return DONE

    async with serving(tmp_path, note):
        assert await answer(tmp_path) == DONE.model_dump(mode="json")
    assert givers == [f"control socket: user {os.getuid()}, process {os.getpid()}"]


@pytest.mark.parametrize(
    "line", [b"\n", b"{}\n", b"\xff\n", b'{"command":"adopt","group_id":""}\n', b"[" * 5000 + b"\n"]
)
async def test_an_unknown_command_is_refused(tmp_path: Path, line: bytes) -> None:
    """Nothing of it is repeated in the answer."""
    async with serving(tmp_path):
        refusal = await answer(tmp_path, line)
    assert refusal["reason"] == (
        "the gateway does not know this command: it runs another version; use the same one"
    )


async def test_a_client_that_sends_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client has a limited time for its command."""
    monkeypatch.setattr(server, "RECEIVE_S", 0.05)
    async with serving(tmp_path):
        assert "waited 0.05 s" in (await answer(tmp_path, b"{"))["reason"]


@pytest.mark.parametrize("line", [b"x" * (COMMAND_BYTES_MAX + 1), b"x"])
async def test_a_client_without_a_line_is_cut_off(tmp_path: Path, line: bytes) -> None:
    """A line has a limited length, and an end."""
    async with serving(tmp_path):
        async with await connect(tmp_path) as client:
            with suppress(trio.BrokenResourceError):
                await client.send_all(line)
                await client.send_eof()
                assert await client.receive_some() == b""
        assert (await answer(tmp_path))["is_adopted"]


async def test_a_client_may_go_before_its_answer(tmp_path: Path) -> None:
    """The command goes on."""
    goes_on = trio.Event()

    async def slow(_command: Command, _by: str) -> Answer:
        await goes_on.wait()
        ended.set()
        return DONE

    ended = trio.Event()
    async with serving(tmp_path, slow):
        async with await connect(tmp_path) as client:
            await client.send_all(COMMAND.model_dump_json().encode() + b"\n")
            await trio.testing.wait_all_tasks_blocked(0.01)
        goes_on.set()
        await ended.wait()


async def test_a_client_that_does_not_read_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is larger than the system's buffers."""
    monkeypatch.setattr(server, "SEND_S", 0.05)
    long = DONE.model_copy(update={"reasons": ("x" * 4_000_000,)})

    async def tell(_command: Command, _by: str) -> Answer:
        return long

    async with serving(tmp_path, tell) as stop, await connect(tmp_path) as client:
        await client.send_all(COMMAND.model_dump_json().encode() + b"\n")
        await trio.sleep(0.1)
        stop()


async def test_connections_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    """Connections within the limit continue."""
    goes_on = trio.Event()

    async def slow(_command: Command, _by: str) -> Answer:
        await goes_on.wait()
        return DONE

    busy = "the gateway is busy with other commands; try again"
    answers: list[AdoptionAnswer] = []

    async def ask() -> None:
        answers.append(await give(tmp_path, COMMAND))

    async with serving(tmp_path, slow), trio.open_nursery() as nursery:
        for _ in range(CONNECTIONS_MAX):
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked(0.001)
        for _ in range(3):
            with pytest.raises(CommandRefused, match=busy):
                await give(tmp_path, COMMAND)
        goes_on.set()
    assert answers == [DONE] * CONNECTIONS_MAX


async def test_a_gateway_that_stops_answers_and_takes_no_further_command(tmp_path: Path) -> None:
    """Its socket has gone."""
    answers: list[dict[str, Any]] = []

    async def ask() -> None:
        answers.append(await answer(tmp_path))

    async with trio.open_nursery() as nursery, serving(tmp_path, endless) as stop:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked(0.01)
        stop()
    assert [refusal["reason"] for refusal in answers] == [SHUTS_DOWN]
    assert not (tmp_path / SOCKET_NAME).exists()
