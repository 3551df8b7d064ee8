"""A gateway that only answers questions and commands, at a real control socket."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import trio

from gateway.admin.app import ApiContext, admin_app
from gateway.admin.guard import App
from gateway.admin.socket_server import serve_commands
from gateway.board.board import Board
from gateway.board.views import View
from gateway.control.handlers import Handlers
from gateway.control.messages import Order, Outcome, Question

GetAnswer = Callable[[Question | Order, str], Awaitable[View | Outcome]]
"""The answer to a question or a command, and who has given it. May raise CommandRefused."""


class FakeHandlers:
    """Handlers with one function for all."""

    def __init__(self, get_answer: GetAnswer) -> None:
        self._get_answer = get_answer

    async def show(self, question: Question) -> Any:
        """The answer to a question."""
        return await self._get_answer(question, "")

    async def answer(self, order: Order, given_by: str) -> Any:
        """The answer to a command."""
        return await self._get_answer(order, given_by)


def fake_app(get_answer: GetAnswer) -> App:
    """The admin API at the control socket, with these answers."""
    handlers = cast(Handlers, FakeHandlers(get_answer))
    context = ApiContext(board=cast(Board, None), handlers=handlers, measure=None, is_local=True)
    return admin_app(context)


@asynccontextmanager
async def fake_gateway(
    folder: Path, get_answer: GetAnswer, *, limit_s: float = 20.0
) -> AsyncIterator[trio.Event]:
    """A gateway in a folder for the length of the block. Set what it yields to stop it earlier."""
    stop = trio.Event()
    with trio.fail_after(limit_s):
        async with trio.open_nursery() as nursery:
            make_app = partial(fake_app, get_answer)
            await nursery.start(partial(serve_commands, folder, make_app, stop=stop))
            yield stop
            stop.set()
