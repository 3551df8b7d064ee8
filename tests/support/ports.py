"""Ports for the brokers and gateways of tests, each handed out once.

No other process takes a port while its owner is down. The ports are below the system's ephemeral
range, each worker of pytest-xdist has its own range, and a UDP socket with the same number reserves
a port against other test runs on this machine.
"""

import itertools
import os
import random
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack

HOST = "127.0.0.1"
ROOM = 8
"""A gateway uses a port for each broker, from the port after its own."""
MARKED_MAX = 32
"""The number of reserved ports. The oldest is released first, because its owner rarely restarts."""
_FIRST, _END = 10_000, 32_768
_WORKERS_MAX = 16


def ports_of(worker: str) -> range:
    """The range of a pytest-xdist worker; "" is a run without workers."""
    number = int(worker.removeprefix("gw") or 0) % _WORKERS_MAX
    size = (_END - _FIRST) // _WORKERS_MAX // ROOM * ROOM
    return range(_FIRST + number * size, _FIRST + (number + 1) * size, ROOM)


_mine = ports_of(os.environ.get("PYTEST_XDIST_WORKER", ""))
# Start at a random port, so that parallel test runs rarely meet.
_first = random.randrange(len(_mine))
_next: Iterator[int] = itertools.cycle([*_mine[_first:], *_mine[:_first]])
_marks: deque[socket.socket] = deque()


def free_port() -> int:
    """A port that is free together with the few after it, and that no other run has reserved."""
    return next(port for port in _next if _is_free(range(port, port + ROOM)) and _mark(port))


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _is_free(ports: range) -> bool:
    with ExitStack() as stack:
        try:
            for port in ports:
                stack.enter_context(socket.socket()).bind((HOST, port))
        except OSError:
            return False
    return True


def _mark(port: int) -> bool:
    """Reserve a port until this process ends. False if it is already reserved."""
    mark = socket.socket(type=socket.SOCK_DGRAM)
    try:
        mark.bind((HOST, port))
    except OSError:
        mark.close()
        return False
    _marks.append(mark)
    if len(_marks) > MARKED_MAX:
        _marks.popleft().close()
    return True
