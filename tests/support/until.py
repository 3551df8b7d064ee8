"""Polls for conditions without an event: other processes and threads, plain data, the log.

A wait ends with the deadline of its caller, or after LIMIT_S where the caller has none.
"""

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import trio

LOOK_INTERVAL_S = 0.02
LIMIT_S = 60

T = TypeVar("T")


async def until(is_so: Callable[[], object]) -> None:
    """Poll until the condition holds. Raises trio.TooSlowError."""
    with _limit():
        while not is_so():  # there is no event to wait for
            await trio.sleep(LOOK_INTERVAL_S)


async def until_answered(
    ask: Callable[[], Awaitable[T]], is_wanted: Callable[[T], object] = bool
) -> T:
    """Ask until the answer is as wanted, by default true, and return it. Raises
    trio.TooSlowError."""
    with _limit():
        while not is_wanted(answer := await ask()):
            await trio.sleep(LOOK_INTERVAL_S)
    return answer


async def until_logged(lines: Iterable[Mapping[str, Any]], event: str, times: int = 1) -> None:
    """Wait for lines of this name among those that `capture_logs` collects."""
    await until(lambda: [line["event"] for line in lines].count(event) >= times)


def until_outside_trio(is_so: Callable[[], object]) -> None:
    """Poll in a test without trio, until the condition holds. Raises TimeoutError."""
    deadline_s = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError
        time.sleep(LOOK_INTERVAL_S)


def _limit() -> AbstractContextManager[object]:
    has_deadline = trio.current_effective_deadline() < math.inf
    return nullcontext() if has_deadline else trio.fail_after(LIMIT_S)
