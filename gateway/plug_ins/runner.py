"""Has plug-ins compute targets, each in a process that is killed if it takes too long.

A thread would not do: one that hangs cannot be stopped, and holds the interpreter's lock. A process
for each target also keeps plug-ins from carrying anything from one group to another.
"""

import json
import os
import pickle
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from uuid import UUID

import trio

from coordinator.interface.events import AssignmentReceived
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import Computation
from gateway.groups.compute_thread import ComputeThread

TIME_LIMIT_S = 10
"""How long a plug-in may take, the start of its process included."""
PROCESSES_MAX = 4
"""How many groups one plug-in serves at the same time. Further ones wait, and keep their targets
meanwhile; each plug-in has places of its own, so that one that hangs holds up no other."""
ANSWER_BYTES_MAX = 64 * 2**20
_COMMAND = (sys.executable, "-P", "-m", "gateway.plug_ins.worker")


class PlugIns:
    """Serves all groups."""

    def __init__(self, compute_thread: ComputeThread, secret_prefix: str) -> None:
        """Plug-ins see no environment variable that begins with `secret_prefix`."""
        self._compute_thread = compute_thread
        self._secret_prefix = secret_prefix
        self._places = defaultdict[str, trio.CapacityLimiter](
            lambda: trio.CapacityLimiter(PROCESSES_MAX)
        )

    async def compute(self, computation: Computation) -> AssignmentReceived:
        """What the plug-in answers, or why it does not."""
        received = partial(AssignmentReceived, epoch=computation.epoch)
        question = await self._compute_thread.run(partial(pickle.dumps, computation))
        try:
            async with self._places[computation.assignor]:
                with trio.fail_after(TIME_LIMIT_S):
                    answer = await _ask(question, self._environment())
            return received(target=await self._compute_thread.run(partial(_target_in, answer)))
        except trio.TooSlowError:
            return received(failure=f"no answer within {TIME_LIMIT_S} s")
        except (OSError, ValueError) as error:
            return received(failure=" ".join(str(error).split()))

    def _environment(self) -> dict[str, str]:
        prefix = self._secret_prefix
        return {name: value for name, value in os.environ.items() if not name.startswith(prefix)}


async def _ask(question: bytes, environment: Mapping[str, str]) -> bytes:
    """Raises OSError, and ValueError if the process does not answer as it should."""
    process = await trio.lowlevel.open_process(
        _COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    answer = bytearray()
    try:
        async with process.stdin, process.stdout, trio.open_nursery() as nursery:
            nursery.start_soon(_send, process.stdin, question)
            async for chunk in process.stdout:
                answer += chunk
                if len(answer) > ANSWER_BYTES_MAX:
                    break
            nursery.cancel_scope.cancel()
        if len(answer) > ANSWER_BYTES_MAX:
            raise ValueError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
        await process.wait()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
    if process.returncode:
        raise ValueError(f"its process ended with status {process.returncode}")
    return bytes(answer)


async def _send(to: trio.abc.SendStream, question: bytes) -> None:
    with suppress(trio.BrokenResourceError):  # the process ended: its status says more
        await to.send_all(question)
        await to.aclose()


def _target_in(answer: bytes) -> dict[str, frozenset[Partition]]:
    """Raises ValueError if the plug-in failed. It may have written the answer past the worker."""
    computed = json.loads(answer)
    if "failure" in computed:
        raise ValueError(computed["failure"])
    try:
        return {
            member_id: frozenset(
                Partition(UUID(topic_id), int(number))
                for topic_id in by_topic
                for number in by_topic[topic_id]
            )
            for member_id, by_topic in computed["target"].items()
        }
    except (AttributeError, KeyError, TypeError):
        raise ValueError("the answer is malformed") from None
