"""How the list of groups is laid out. Apart from what draws it, so that other commands do not load
that."""

from typing import NamedTuple

COLUMN_NAMES = (
    *("group", "mode", "type", "state", "new", "members", "unowned", "lag", "behind", "waits"),
)


class ListLayout(NamedTuple):
    """Names among COLUMN_NAMES."""

    columns: tuple[str, ...] = ()
    """The usual ones if there are none."""
    sorted_by: str = "group"


USUAL_LAYOUT = ListLayout()
