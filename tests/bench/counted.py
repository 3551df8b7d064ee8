"""`groupferry`, with a count of what it does.

    python tests/bench/counted.py LIBRARY PORT steps|memory [--plant MODULE:FUNCTION] serve ...

LIBRARY is made from `native/counts.c`. A client that connects to PORT gets the counts so far as
JSON. The processes of a fleet have the ports after it, in the order of their starts. A planted
function does some needless work in each call: it shows that a guard finds that.
"""

import ctypes
import itertools
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from gateway.cli import main

NAMES = ("lines", "calls", "c_calls", "system_calls", "bytes", "blocks")
STEPS, MEMORY = "steps", "memory"
PLANT = "--plant"
NEEDLESS_ROUNDS, NEEDLESS_BYTES = 800, 50


class Counts(ctypes.Structure):
    """The counts, in the layout that `native/counts.c` declares."""

    _fields_ = [(name, ctypes.c_uint64) for name in NAMES]

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {name: getattr(self, name) for name in NAMES}


def count(library: ctypes.PyDLL, what: str) -> None:
    """Count from now on. Threads that begin later are counted as well."""
    if what == MEMORY:
        library.count_memory()
        return

    def follow(*_: object) -> None:
        library.count_steps()

    threading.settrace(follow)
    library.count_steps()


def answer(counts: Counts, port: int) -> None:
    """Send the counts to every client that connects."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        while True:
            client, _ = listening.accept()
            with client:
                client.sendall(json.dumps(counts.as_dict()).encode())


def plant(name: str) -> None:
    """Let this function, or method, do needless work in each call."""
    module_name, _, path = name.partition(":")
    *owners, last = path.split(".")
    owner: Any = import_module(module_name)
    for part in owners:
        owner = getattr(owner, part)
    setattr(owner, last, needlessly(getattr(owner, last)))


def needlessly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with needless work before it."""

    @wraps(function)
    def work_needlessly(*args: Any, **kwargs: Any) -> Any:
        for _ in range(NEEDLESS_ROUNDS):
            bytes(NEEDLESS_BYTES)
        return function(*args, **kwargs)

    return work_needlessly


def run(library_path: str, port: str, what: str, *command: str) -> int:
    """Run a command of `groupferry` under the count."""
    if command[0] == PLANT:
        plant(command[1])
        command = command[2:]
    library = ctypes.PyDLL(library_path)
    counts = Counts.in_dll(library, "counts")
    forks = itertools.count(1)
    number = 0

    def begin_fork() -> None:
        nonlocal number
        number = next(forks)

    def tell() -> None:
        arguments = (counts, int(port) + number)
        threading.Thread(target=answer, args=arguments, daemon=True).start()

    os.register_at_fork(before=begin_fork, after_in_child=tell)
    tell()
    count(library, what)
    return main(command)


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
