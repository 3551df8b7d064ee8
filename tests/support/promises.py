"""The promises: no partition has two owners, no record is passed over, and no commit is lost.

A failed test with real brokers is repeated, because timers and load can fail it. One that has seen
a promise broken is not.
"""


class PromiseBroken(AssertionError):
    """It happened once, so it can happen."""


def promise(is_kept: bool, told: object) -> None:
    """Raise PromiseBroken unless the promise is kept; `told` explains the failure."""
    if not is_kept:
        raise PromiseBroken(told)


def raise_broken(group: BaseExceptionGroup) -> None:
    """Raise the first PromiseBroken anywhere in the group, if it has one."""
    for each in group.exceptions:
        if isinstance(each, PromiseBroken):
            raise PromiseBroken(*each.args) from group
        if isinstance(each, BaseExceptionGroup):
            raise_broken(each)
