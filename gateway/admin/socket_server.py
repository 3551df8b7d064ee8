"""Serves the admin API at the control socket.

Only the owner of the state folder can connect, so that no token is asked for.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from gateway.control.control_socket import listening

if TYPE_CHECKING:
    from gateway.admin.guard import App
    from gateway.admin.server import HttpServer

FAREWELL_S = 0.5
"""How long answers that are under way have when the gateway stops."""


async def serve_commands(
    folder: Path,
    make_app: "Callable[[], App]",
    *,
    stop: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `stop`. `make_app` is called in a thread once the first client has connected:
    many gateways have none, and its modules are slow to load.

    Raises NoControlSocket.
    """
    server: HttpServer | None = None
    loading = trio.Lock()

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal server
        async with loading:
            if server is None:
                server = await trio.to_thread.run_sync(_make_server, make_app)
        if stop.is_set():
            stream.socket.close()
        else:
            await server.serve(stream)

    async with trio.open_nursery() as connections:
        with listening(folder) as listener:
            async with trio.open_nursery() as accepting:
                accept = partial(
                    trio.serve_listeners, serve, [listener], handler_nursery=connections
                )
                await accepting.start(accept)
                task_status.started()
                await stop.wait()
                accepting.cancel_scope.cancel()
        if server is not None:
            server.finish(within_s=FAREWELL_S)


def _make_server(make_app: "Callable[[], App]") -> "HttpServer":
    from gateway.admin.server import HttpServer  # slow to load

    return HttpServer(make_app())
