"""What a search may find."""


class BrokenPromiseError(AssertionError):
    """Something that must never happen has happened."""


def promise(holds: object, *reason: object) -> None:
    """Raises BrokenPromiseError unless it holds."""
    if not holds:
        raise BrokenPromiseError(" ".join(map(str, reason)))
