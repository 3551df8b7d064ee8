"""What a command prints when the gateway does not answer as it should."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.board.views import Events
from gateway.control import client
from gateway.control.client import give, look
from gateway.control.control_socket import listening
from gateway.control.messages import (
    COMMANDS,
    AdoptCommand,
    AdoptionAnswer,
    Command,
    CommandRefused,
    LatestEvents,
    RefusalAnswer,
    ViewAnswer,
)

COMMAND = AdoptCommand(group_id="g", dry_run=True)
DONE = AdoptionAnswer(group_id="g", is_adopted=False, reasons=("b is outside",))


@asynccontextmanager
async def answering(
    folder: Path, line: bytes | None, command: Command = COMMAND
) -> AsyncIterator[None]:
    """A gateway that answers everything with this line; None: not at all."""

    async def answer(stream: trio.SocketStream) -> None:
        assert COMMANDS.validate_json(await stream.receive_some()) == command
        if line is None:
            await trio.sleep_forever()
        else:
            await stream.send_all(line)

    with trio.fail_after(10), listening(folder) as listener:
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(trio.serve_listeners, answer, [listener]))
            yield
            nursery.cancel_scope.cancel()


async def test_an_outcome_is_returned(tmp_path: Path) -> None:
    """As the gateway sent it."""
    async with answering(tmp_path, DONE.model_dump_json().encode() + b"\n"):
        assert await give(tmp_path, COMMAND) == DONE


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (RefusalAnswer(why="not now").model_dump_json().encode() + b"\n", "not now"),
        (b"{}\n", "runs another version"),
        (b"HTTP/1.1 400 Bad Request\r\n", "runs another version"),
        (b"", "ended before it answered"),
        (None, "did not answer in 0.1 s"),
    ],
)
async def test_anything_else_is_one_line(
    tmp_path: Path, line: bytes | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line says what to do."""
    monkeypatch.setattr(client, "ANSWER_S", 0.1 if line is None else 5.0)
    async with answering(tmp_path, line):
        with pytest.raises(CommandRefused, match=why):
            await give(tmp_path, COMMAND)


async def test_an_answer_to_a_question_is_a_view(tmp_path: Path) -> None:
    """One that it is not, is of another version."""
    view = Events(stream_id="s", last=0, events=())
    question = LatestEvents(group_id="g")
    told = ViewAnswer(view=view.model_dump(mode="json")).model_dump_json().encode() + b"\n"
    async with answering(tmp_path, told, question):
        assert await look(tmp_path, question, Events) == view
    async with answering(tmp_path, b'{"kind":"shown","view":{"x":1}}\n', question):
        with pytest.raises(CommandRefused, match="another version"):
            await look(tmp_path, question, Events)
