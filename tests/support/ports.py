"""Ports for the brokers and gateways of tests, each handed out once.

Nobody else takes them while their owner is down: they are below those that the system gives to
whoever connects, each worker of pytest-xdist has a range of its own, and to other runs on this
machine they are marked as given out, by a UDP socket of the same number.
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
"""A gateway takes a port for each broker, from those after its own."""
MARKED_MAX = 32
"""So many are marked at a time, the latest: who has one for longer is hardly ever down."""
_FIRST, _END = 10_000, 32_768
_WORKERS_MAX = 16


def ports_of(worker: str) -> range:
    """Those that a worker of pytest-xdist gives out; "" is a run without workers."""
    number = int(worker.removeprefix("gw") or 0) % _WORKERS_MAX
    size = (_END - _FIRST) // _WORKERS_MAX // ROOM * ROOM
    return range(_FIRST + number * size, _FIRST + (number + 1) * size, ROOM)


_mine = ports_of(os.environ.get("PYTEST_XDIST_WORKER", ""))
# Another run of the tests on this machine most likely begins elsewhere.
_first = random.randrange(len(_mine))
_next: Iterator[int] = itertools.cycle([*_mine[_first:], *_mine[:_first]])
_marks: deque[socket.socket] = deque()


def free_port() -> int:
    """A port that nobody listens at, nor at the few after it, and that no other run has."""
    return next(port for port in _next if _is_free(range(port, port + ROOM)) and _mark(port))


def is_open(port: int) -> bool:
    """Whether somebody listens there."""
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
    """Whether it was not marked yet; the mark goes with this process at the latest."""
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
