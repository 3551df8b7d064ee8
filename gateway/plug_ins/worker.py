"""The process in which a plug-in computes one target: `python -m gateway.plug_ins.worker`.

It reads a pickled `Computation`, and answers in JSON: `target` has the partition numbers by member
id and topic id, `failure` says why there is none.
"""

import json
import os
import pickle
import resource
import signal
import sys
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from coordinator.assignors import spec_of
from coordinator.interface.volatile_records import Computation
from gateway.plug_ins.installed import load

ORPHAN_LIMIT_S = 60
"""How long the process outlives a gateway that was killed."""
MEMORY_BYTES_MAX = 4 * 2**30
"""Address space of a worker."""
NICENESS = 10
"""The gateway's event loop has priority."""


def main() -> None:
    """Answer the question at standard input. What the plug-in prints is dropped."""
    signal.alarm(ORPHAN_LIMIT_S)  # in case the gateway, which ends it, was killed
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    os.nice(NICENESS)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        computation: Computation = pickle.load(sys.stdin.buffer)  # noqa: S301  (from the gateway)
        out.write(json.dumps(answer_to(computation)).encode())


def answer_to(computation: Computation) -> Mapping[str, Any]:
    """The plug-in's target, or what went wrong."""
    try:
        target = load(computation.assignor)(spec_of(computation))
        return {"target": {_text(id_): _numbers(partitions) for id_, partitions in target.items()}}
    except Exception as error:  # the boundary: whatever the plug-in raises
        return {"failure": f"{type(error).__name__}: {error}"}


def _numbers(partitions: Iterable[tuple[object, object]]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for topic_id, number in partitions:
        if not (isinstance(topic_id, UUID) and isinstance(number, int)):
            raise TypeError(f"({topic_id!r}, {number!r}) is not a partition")
        numbers.setdefault(topic_id.hex, []).append(number)
    return numbers


def _text(member_id: object) -> str:
    if not isinstance(member_id, str):
        raise TypeError(f"{member_id!r} is not a member id")
    return member_id


if __name__ == "__main__":
    main()
