"""The admin API at the control socket."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.board.views import Events
from gateway.control.client import fetch_view, give, pass_on
from gateway.control.control_socket import SOCKET_NAME, NoControlSocket, connect
from gateway.control.http_client import send_request
from gateway.control.messages import (
    COMMAND_BYTES_MAX,
    AdoptCommand,
    AdoptionAnswer,
    CommandRefused,
    LatestEvents,
    Order,
    Question,
)
from tests.support.fake_gateway import fake_gateway

COMMAND = AdoptCommand(group_id="g")
DONE = AdoptionAnswer(group_id="g", is_adopted=True, held_ms=120)
EVENTS = Events(stream_id="s", last=0, events=())


async def succeed(asked: Question | Order, _given_by: str) -> Any:
    """The answer to a command that succeeds immediately, or to a question."""
    return DONE if asked == COMMAND else EVENTS


async def ask(folder: Path, method: str, target: str, **options: Any) -> tuple[int, bytes]:
    """Ask in HTTP."""
    async with await connect(folder) as stream:
        return await send_request(stream, method, target, **options)


async def test_a_command_is_answered_to_a_giver_who_is_known(tmp_path: Path) -> None:
    """The system knows the process, and its user. A process that passes a command on names who gave
    it."""
    givers: list[str] = []

    async def record(_command: Question | Order, given_by: str) -> AdoptionAnswer:
        givers.append(given_by)
        return DONE

    async with fake_gateway(tmp_path, record):
        assert await give(tmp_path, COMMAND) == DONE
        assert await pass_on(tmp_path, COMMAND, "admin API: ::1") == DONE
    own = f"control socket: user {os.getuid()}, process {os.getpid()}"
    assert givers == [own, "admin API: ::1"]


async def test_a_program_can_ask_what_a_terminal_can(tmp_path: Path) -> None:
    """No token is needed, and the description is there."""
    async with fake_gateway(tmp_path, succeed):
        status, shown = await ask(tmp_path, "GET", "/api/latest-events?group_id=g%0A")
        assert (status, Events.model_validate_json(shown)) == (200, EVENTS)
        status, described = await ask(tmp_path, "GET", "/api/openapi.json")
        assert (status, b"/api/commands/adopt" in described) == (200, True)
        status, unmeasured = await ask(tmp_path, "GET", "/metrics")
        assert (status, b"set it" in unmeasured) == (503, True)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{}", 400),
        (b"\xff", 400),
        (b'{"group_id":""}', 400),
        (b"[" * 5000, 400),
        (b"x" * (COMMAND_BYTES_MAX + 1), 413),
    ],
)
async def test_a_malformed_command_is_refused(tmp_path: Path, body: bytes, status: int) -> None:
    """The next one is carried out."""
    headers = {"Content-Type": "application/json"}
    async with fake_gateway(tmp_path, succeed):
        refused, _ = await ask(tmp_path, "POST", "/api/commands/adopt", body=body, headers=headers)
        assert refused == status
        assert await give(tmp_path, COMMAND) == DONE


async def test_a_client_may_go_before_its_answer(tmp_path: Path) -> None:
    """Another one is served meanwhile."""
    arrived = trio.Event()

    async def answer(command: Question | Order, _given_by: str) -> AdoptionAnswer:
        if command != COMMAND:
            arrived.set()
            await trio.sleep_forever()
        return DONE

    async with fake_gateway(tmp_path, answer):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(give, tmp_path, AdoptCommand(group_id="endless"))
            await arrived.wait()
            nursery.cancel_scope.cancel()
        assert await give(tmp_path, COMMAND) == DONE


async def test_a_gateway_that_stops_answers_and_takes_no_further_command(tmp_path: Path) -> None:
    """The command that is under way is answered; who only listens does not delay the end."""
    answers: list[AdoptionAnswer] = []

    arrived = trio.Event()

    async def until_stop(_command: Question | Order, _given_by: str) -> AdoptionAnswer:
        arrived.set()
        await stop.wait()
        return DONE

    async def ask_once() -> None:
        answers.append(await give(tmp_path, COMMAND))

    async with fake_gateway(tmp_path, until_stop) as stop, trio.open_nursery() as nursery:
        nursery.start_soon(ask_once)
        silent = await connect(tmp_path)
        await arrived.wait()
        stop.set()
    await silent.aclose()
    assert answers == [DONE]
    assert not (tmp_path / SOCKET_NAME).exists()
    with pytest.raises(NoControlSocket):
        await give(tmp_path, COMMAND)


async def test_an_answer_that_nobody_reads_does_not_keep_the_gateway(tmp_path: Path) -> None:
    """The answer is larger than the buffers of the system."""
    long = DONE.model_copy(update={"reasons": ("x" * 4_000_000,)})

    async def tell(_command: Question | Order, _given_by: str) -> AdoptionAnswer:
        return long

    async with fake_gateway(tmp_path, tell) as stop, await connect(tmp_path) as client:
        await client.send_all(
            b"POST /api/commands/adopt HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 16\r\n\r\n"
            b'{"group_id": "g"}'
        )
        assert await client.receive_some(1)
        stop.set()


async def test_questions_at_the_same_time_are_all_answered(tmp_path: Path) -> None:
    """The application is loaded once, by the first."""
    shown: list[Events] = []

    async def show() -> None:
        with suppress(CommandRefused):
            shown.append(await fetch_view(tmp_path, LatestEvents(), Events))

    async with fake_gateway(tmp_path, succeed), trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(show)
    assert shown == [EVENTS] * 10


def test_a_gateway_without_clients_loads_no_http_server() -> None:
    """The modules take a quarter of a second to load."""
    loaded = "any(name.startswith(('hypercorn', 'starlette')) for name in sys.modules)"
    code = f"import sys, gateway.serve; sys.exit({loaded})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
