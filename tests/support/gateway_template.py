"""The process of `forked_gateway.py`: it has loaded the gateway's modules, and forks gateways.

It takes one order per message from a socket, with the stderr of a gateway and a pipe, where it
writes the gateway's process id, and later its exit status. It ends with the socket, and its
gateways with it.
"""

import json
import os
import random
import selectors
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import gateway.commands.dispatch
import gateway.serve  # noqa: F401  # `serve` imports it

ORDER_BYTES_MAX = 1 << 17


def _next_order(orders: socket.socket) -> dict[str, Any]:
    """Return once in each forked gateway, with its order."""
    gateways: dict[int, tuple[int, int]] = {}  # process id and pipe by pidfd
    watched = selectors.DefaultSelector()
    watched.register(orders, selectors.EVENT_READ)
    while True:
        for key, _ in watched.select():
            if key.fd in gateways:
                watched.unregister(key.fd)
                pid, pipe = gateways.pop(key.fd)
                _tell(pipe, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                os.close(pipe)
                os.close(key.fd)
                continue
            order, (*descriptors,), _, _ = socket.recv_fds(orders, ORDER_BYTES_MAX, 2)
            if not order:
                for pid, _ in gateways.values():
                    os.kill(pid, signal.SIGKILL)
                os._exit(0)
            stderr, pipe = descriptors
            pid = os.fork()
            if pid == 0:
                os.dup2(stderr, sys.stderr.fileno())
                watched.close()
                orders.close()
                for of_others in (*gateways, *(its for _, its in gateways.values()), stderr, pipe):
                    os.close(of_others)
                return dict(json.loads(order))
            os.close(stderr)
            _tell(pipe, pid)
            pidfd = os.pidfd_open(pid)
            gateways[pidfd] = pid, pipe
            watched.register(pidfd, selectors.EVENT_READ)


def _tell(pipe: int, number: int) -> None:
    with suppress(BrokenPipeError):  # the test has ended
        os.write(pipe, f"{number}\n".encode())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the tests, which end it
    its_order = _next_order(socket.socket(fileno=int(sys.argv[1])))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    os.chdir(its_order["folder"])
    os.environ.clear()
    os.environ.update(its_order["environment"])
    sys.argv = ["-c", *its_order["arguments"]]
    exec(its_order["program"], {"__name__": "__main__"})
