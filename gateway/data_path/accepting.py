"""Accepts clients without a task for each: thousands may come at once, and a task takes longer than
all else that a new connection needs."""

import contextlib
import errno
import os
import socket
from collections.abc import Callable

import structlog
import trio

ACCEPTED_TOGETHER_MAX = 16
"""Connections that are accepted before those that are open have their turn."""
RETRY_S = 0.1
"""How long to wait if the system has no room for another connection."""
UNSENT_BYTES_MAX = 16 * 1024
"""What the system may hold of answers before it counts as slow, as in Trio's own sockets."""
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_OF_ONE_CLIENT = frozenset(
    {
        *(errno.EPERM, errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.ENOPROTOOPT),
        *(errno.EHOSTDOWN, errno.ENONET, errno.EHOSTUNREACH, errno.EOPNOTSUPP),
        *(errno.ENETUNREACH, errno.ENOSR, errno.ETIMEDOUT, errno.ECONNRESET),
    }
)
"""Errors of a connection that was lost before it was accepted: see accept(2)."""

log = structlog.get_logger()


async def accept_clients(
    listener: trio.SocketListener, accept: Callable[[socket.socket], None]
) -> None:
    """Accept clients until cancelled, and close the listener then. `accept` takes each socket."""
    async with listener:
        with socket.socket(fileno=os.dup(listener.socket.fileno())) as listening:
            listening.setblocking(False)
            while True:
                await trio.lowlevel.wait_readable(listening)
                try:
                    for _ in range(ACCEPTED_TOGETHER_MAX):
                        accept(_prepare(listening.accept()[0]))
                except BlockingIOError:
                    continue
                except OSError as error:
                    if error.errno in _NO_ROOM:
                        log.warning("connection_not_accepted", reason=error.strerror)
                        await trio.sleep(RETRY_S)
                    elif error.errno not in _OF_ONE_CLIENT:
                        raise


def _prepare(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    with contextlib.suppress(OSError):  # the client may have gone already
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
    return sock
