"""A pytest plugin that records which test calls which function, and how long each test takes.

It is only for the run before all mutants. CALLS names the JSON file for the result.
"""

import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

CALLS = "GROUPFERRY_MUTATION_CALLS"
_ROOT = f"{Path.cwd()}/"

_callers: dict[str, set[str]] = defaultdict(set)
_lasted_s: dict[str, float] = defaultdict(float)
_failed: set[str] = set()
"""A traced test may take longer than its limit."""
_test = ""


def _trace(frame: FrameType, _event: str, _argument: object) -> None:
    """Trace only calls, which is cheap."""
    code = frame.f_code
    if _test and code.co_filename.startswith(_ROOT):
        _callers[f"{code.co_filename.removeprefix(_ROOT)}:{code.co_firstlineno}"].add(_test)


def pytest_sessionstart() -> None:
    """Fixtures call functions as well."""
    sys.settrace(_trace)
    threading.settrace(_trace)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Later calls belong to this test."""
    global _test  # noqa: PLW0603  (one session is one process)
    _test = _name(item.nodeid)
    try:
        return (yield)
    finally:
        _test = ""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The sum of set-up, call and teardown."""
    if report.failed:
        _failed.add(_name(report.nodeid))
    _lasted_s[_name(report.nodeid)] += report.duration


def pytest_sessionfinish() -> None:
    """Write the result."""
    sys.settrace(None)
    callers = {function: sorted(tests - _failed) for function, tests in _callers.items()}
    lasted_s = {test: s for test, s in _lasted_s.items() if test not in _failed}
    report = json.dumps({"callers": callers, "lasted_s": lasted_s})
    Path(os.environ[CALLS]).write_text(report)


def _name(nodeid: str) -> str:
    """The test with all its parameters."""
    return nodeid.partition("[")[0]
