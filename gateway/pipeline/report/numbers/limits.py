"""Limits on the report: on how many rows it shows of anything, and on the length of names."""

from hashlib import md5

GROUPS_USUAL = 50
EACH_MIN = 10
NAME_MAX = 256
"""The longest name in characters that is shown in full."""
_END = 100
"""Characters shown of either end of a longer name, because ids differ there."""


def of_each(most: int, groups: int) -> int:
    """How many items each group may show: less than `most` if there are more groups than usual, so
    that a browser can open the page."""
    return most if groups <= GROUPS_USUAL else max(EACH_MIN, most * GROUPS_USUAL // groups)


def short(name: str) -> str:
    """A name longer than NAME_MAX as its two ends and a digest, so that different names stay
    different."""
    if len(name) <= NAME_MAX:
        return name
    digest = md5(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[:_END]}…{digest}…{name[-_END:]}"


def short_or_none(name: str | None) -> str | None:
    """The same for a name that may be unknown."""
    return None if name is None else short(name)
