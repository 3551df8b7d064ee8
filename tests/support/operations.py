"""Counts what work costs without a clock: the same on every machine, busy or not."""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_TOP = Path(__file__).parents[2]
_SHIPPED = tuple(f"{_TOP / package}/" for package in ("gateway", "coordinator", "codecs"))
_SIMULATION = f"{_TOP / 'tests' / 'simulation'}/"
"""Plays the brokers of tests."""


@dataclass(slots=True)
class Steps:
    """Bytecode instructions. A loop in C, such as copying a dict, is one."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What some work took."""

    steps: int
    peak_bytes: int
    """Memory beyond that at the start. Shows the copies that `steps` does not."""


@contextmanager
def counted_steps() -> Iterator[Steps]:
    """Count what all tasks of this thread do within the block."""
    steps = Steps()

    def trace(frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps.count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)


@contextmanager
def called_functions() -> Iterator[set[CodeType]]:
    """Find what all tasks of this thread call within the block: the functions that ship, without
    those that are made, such as the readers of messages."""
    called: set[CodeType] = set()

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_SHIPPED):
            called.add(code)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield called
    finally:
        sys.setprofile(before)
        called -= {code for code in called if code.co_filename.startswith(_SIMULATION)}


def cost_of(work: Callable[[], object]) -> Cost:
    """Do the work twice, and count it both ways."""
    with counted_steps() as steps:
        work()
    return Cost(steps=steps.count, peak_bytes=_peak_bytes(work))


def _peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before
