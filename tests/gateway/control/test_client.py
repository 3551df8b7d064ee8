"""What a command prints when the gateway does not answer as it should."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.control import client
from gateway.control.client import give
from gateway.control.control_socket import listening
from gateway.control.messages import Adopt, Adoption, CommandRefused, Refusal

COMMAND = Adopt(group_id="g", dry_run=True)
DONE = Adoption(group_id="g", is_adopted=False, reasons=("b is outside",))


@asynccontextmanager
async def answering(folder: Path, line: bytes | None) -> AsyncIterator[None]:
    """A gateway that answers everything with this line; None: not at all."""

    async def answer(stream: trio.SocketStream) -> None:
        assert Adopt.model_validate_json(await stream.receive_some()) == COMMAND
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
        (Refusal(why="not now").model_dump_json().encode() + b"\n", "not now"),
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
