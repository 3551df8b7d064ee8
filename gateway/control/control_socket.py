"""The unix socket of a gateway, in its state folder.

A socket's path has at most 107 bytes, a folder's up to 4,095. So both ends name the socket below an
open descriptor of its folder.
"""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

SOCKET_NAME = "control.sock"
WAITING_MAX = 16
"""Connections that the system keeps until the gateway accepts them."""


class NoControlSocket(Exception):
    """The socket cannot be created or reached. The message says why, in one line."""


@contextmanager
def listening(folder: Path, name: str = SOCKET_NAME) -> Iterator[trio.SocketListener]:
    """Listen in a folder that this process has locked, so that a socket found there was left by a
    process that is dead. Only the folder's owner can connect, from the first moment on. The socket
    is removed at the end. Raises NoControlSocket."""
    path = folder / name
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as made:
        try:
            _remove_socket(path)
            os.fchmod(made.fileno(), 0o600)  # the mode that the path gets when it is bound
            with _short(folder, name) as short:
                made.bind(short)
            made.listen(WAITING_MAX)
        except OSError as error:
            raise NoControlSocket(
                f"cannot listen on {path}: {error.strerror}; give another --state-dir"
            ) from None
        try:
            yield trio.SocketListener(trio.socket.from_stdlib_socket(made))
        finally:
            with suppress(OSError):
                _remove_socket(path)


def _unreachable(folder: Path, error: OSError) -> NoControlSocket:
    return NoControlSocket(
        f"cannot reach the gateway in {folder}: {error.strerror}; run the command as the gateway's"
        " user, or see --state-dir"
    )


async def connect(folder: Path, name: str = SOCKET_NAME) -> trio.SocketStream:
    """Connect to the gateway of a state folder. Raises NoControlSocket."""
    try:
        made = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise _unreachable(folder, error) from None
    try:
        with _short(folder, name) as short:
            await made.connect(short)
        made.getpeername()  # trio takes it for connected if too many others wait
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        made.close()
        raise NoControlSocket(
            f"no gateway is running in {folder}: start it, or see --state-dir"
        ) from None
    except OSError as error:
        made.close()
        if error.errno == errno.ENOTCONN:
            raise NoControlSocket(
                f"the gateway in {folder} takes no more connections: it is busy, or stopped; try"
                " again, and look at its log"
            ) from None
        raise _unreachable(folder, error) from None
    except BaseException:
        made.close()
        raise
    return trio.SocketStream(made)


@contextmanager
def _short(folder: Path, name: str) -> Iterator[str]:
    """A short path of the socket. Raises OSError."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def _remove_socket(path: Path) -> None:
    """Remove a socket, and nothing else. Raises OSError."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
