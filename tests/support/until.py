"""Polls for conditions without an event: other processes and threads, plain data, the log."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import trio

LOOK_INTERVAL_S = 0.02
LIMIT_S = 60


async def until(is_so: Callable[[], object]) -> None:
    """Poll until the condition holds. Raises trio.TooSlowError."""
    with trio.fail_after(LIMIT_S):
        while not is_so():  # there is no event to wait for
            await trio.sleep(LOOK_INTERVAL_S)


async def until_logged(lines: Iterable[Mapping[str, Any]], event: str, times: int = 1) -> None:
    """Wait for lines of this name among those that `capture_logs` collects."""
    await until(lambda: [line["event"] for line in lines].count(event) >= times)
