"""The promises: no partition has two owners, no record is passed over, and no commit is lost.

A failed test with real brokers is repeated, because timers and load can fail it. One that has seen
a promise broken is not.
"""

import pytest

EXIT_STATUS = 10
"""The exit status of a run in which a promise was broken. `.ci/run` repeats failed tests only after
other failures, whose exit status is 1."""


class PromiseBroken(AssertionError):
    """A promise was broken. What has happened once can happen."""


def promise(is_kept: bool, explanation: object) -> None:
    """Raise PromiseBroken unless the promise is kept; `explanation` explains the failure."""
    if not is_kept:
        raise PromiseBroken(explanation)


def raise_broken(group: BaseExceptionGroup) -> None:
    """Raise the first PromiseBroken anywhere in the group, if it has one."""
    for exception in group.exceptions:
        if isinstance(exception, PromiseBroken):
            raise PromiseBroken(*exception.args) from group
        if isinstance(exception, BaseExceptionGroup):
            raise_broken(exception)


class PromiseWatch:
    """A pytest plugin that tells broken promises from other failures by the exit status."""

    def __init__(self) -> None:
        self._is_broken = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Look at the text, which is all that a worker sends of an exception."""
        self._is_broken |= report.failed and PromiseBroken.__name__ in report.longreprtext

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Set the exit status."""
        if self._is_broken:
            session.exitstatus = EXIT_STATUS
