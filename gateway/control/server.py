"""Takes commands at the socket: one per connection, a line in and a line out.

Only the owner of the state folder can connect. Even so, a client that is slow or floods the socket
takes some of few places for some seconds, and nothing from anybody else.
"""

import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio
from pydantic import ValidationError

from gateway.control.control_socket import listening
from gateway.control.lines import UnreadableLine, receive_line
from gateway.control.messages import (
    COMMAND_BYTES_MAX,
    COMMANDS,
    RECEIVE_S,
    SEND_S,
    SHUTS_DOWN,
    Answer,
    Command,
    RefusalAnswer,
)

CONNECTIONS_MAX = 16
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of the client."""

GetAnswer = Callable[[Command, str], Awaitable[Answer]]
"""The answer to a command, and who has given it. Raises nothing."""


async def serve_commands(
    folder: Path,
    get_answer: GetAnswer,
    *,
    stop: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Take commands until `stop`. Those that are under way then are answered that the gateway
    stops.

    Raises NoControlSocket.
    """
    server = _ControlServer(get_answer)
    async with trio.open_nursery() as connections:
        with listening(folder) as listener:
            async with trio.open_nursery() as accepting:
                accept = partial(
                    trio.serve_listeners, server.serve, [listener], handler_nursery=connections
                )
                await accepting.start(accept)
                task_status.started()
                await stop.wait()
                accepting.cancel_scope.cancel()
        server.stop()


class _ControlServer:
    def __init__(self, get_answer: GetAnswer) -> None:
        self._get_answer = get_answer
        self._connections = 0
        self._under_way: set[trio.CancelScope] = set()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one command. `serve_listeners` closes the connection."""
        self._connections += 1
        try:
            with suppress(
                trio.BrokenResourceError, UnreadableLine
            ):  # the client has gone, or is none
                answer = await self._answer(stream)
                with trio.move_on_after(SEND_S):
                    await stream.send_all(answer.model_dump_json().encode() + b"\n")
        finally:
            self._connections -= 1

    def stop(self) -> None:
        """End all commands that are under way."""
        for scope in self._under_way:
            scope.cancel()

    async def _answer(self, stream: trio.SocketStream) -> Answer:
        """Raises UnreadableLine, trio.BrokenResourceError."""
        if self._connections > CONNECTIONS_MAX:
            return RefusalAnswer(reason="the gateway is busy with other commands; try again")
        with trio.CancelScope() as scope:
            self._under_way.add(scope)
            try:
                with trio.fail_after(RECEIVE_S):
                    line = await receive_line(stream, COMMAND_BYTES_MAX)
                return await self._get_answer(COMMANDS.validate_json(line), _peer(stream))
            except trio.TooSlowError:
                return RefusalAnswer(
                    reason=f"the gateway waited {RECEIVE_S:g} s for the command: try again"
                )
            except ValidationError:
                return RefusalAnswer(
                    reason="the gateway does not know this command: it runs another"
                    " version; use the same one"
                )
            finally:
                self._under_way.discard(scope)
        return RefusalAnswer(reason=SHUTS_DOWN)


def _peer(stream: trio.SocketStream) -> str:
    """The process that gave the command, and its user."""
    credentials = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return f"control socket: user {user}, process {process}"
