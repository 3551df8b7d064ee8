"""Ports at which several processes of a machine listen: the system gives a new connection to one of
them.
"""

import socket
from typing import Any

import trio

_BACKLOG = 0xFFFF
"""Unaccepted connections, as in Trio: as many as the system allows."""
SocketAddress = tuple[socket.AddressFamily, tuple[Any, ...]]


async def resolve(host: str) -> list[SocketAddress]:
    """The addresses to listen at. Raises OSError."""
    resolved = await trio.socket.getaddrinfo(
        host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    return [(family, address) for family, _type, _protocol, _name, address in resolved]


def listen_shared(address: SocketAddress, port: int) -> trio.SocketListener:
    """Listen at a port where others may listen as well. Raises OSError."""
    bound = bound_socket(address, port, is_shared=True)
    bound.listen(_BACKLOG)
    return trio.SocketListener(trio.socket.from_stdlib_socket(bound))


def bound_socket(address: SocketAddress, port: int, *, is_shared: bool = False) -> socket.socket:
    """A socket that is bound to a port, which others may share if it is. Raises OSError."""
    family, (host, _port, *rest) = address
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((host, port, *rest))
    except OSError:
        made.close()
        raise
    return made
