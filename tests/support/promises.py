"""The promises: no partition has two owners, no record is passed over, and no commit is lost.

A failed test with real brokers is repeated, because timers and load can fail it. One that has seen
a promise broken is not.
"""


class PromiseBroken(AssertionError):
    """A promise was broken. What has happened once can happen."""


def promise(is_kept: bool, told: object) -> None:
    """Raise PromiseBroken unless the promise is kept; `told` explains the failure."""
    if not is_kept:
        raise PromiseBroken(told)


def raise_broken(group: BaseExceptionGroup) -> None:
    """Raise the first PromiseBroken anywhere in the group, if it has one."""
    for exception in group.exceptions:
        if isinstance(exception, PromiseBroken):
            raise PromiseBroken(*exception.args) from group
        if isinstance(exception, BaseExceptionGroup):
            raise_broken(exception)
