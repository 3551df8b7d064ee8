"""State with lazy forks: a fork costs only what is read and written on it."""

from typing import TYPE_CHECKING, Any, Self


class Forkable:
    """An object with slots, which hold immutable values, tables, and other forkable objects.

    A fork copies each field at its first use, because most rules use few. The original must not be
    written while a fork is in use.
    """

    __slots__ = ("_original",)
    _original: Self

    def fork(self) -> Self:
        """A lazy copy to decide on, independent of the original."""
        twin = type(self).__new__(type(self))
        twin._original = self
        return twin

    if not TYPE_CHECKING:  # so that the type checker still reports unknown attributes

        def __getattr__(self, name: str) -> Any:
            """Called only for slots that are still empty."""
            if name == "_original":
                raise AttributeError(name)
            field = getattr(self._original, name)
            fork = getattr(field, "fork", None)
            if fork is not None:
                field = fork()
            setattr(self, name, field)
            return field
