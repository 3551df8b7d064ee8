"""State whose fork costs nothing, and then what is looked at and written."""

from typing import TYPE_CHECKING, Any, Self


class Forkable:
    """A bundle of fields, which are slots: values that never change, tables, and other bundles,
    that is, things that have a `fork` of their own.

    A fork takes up each field when somebody first asks for it; most rules need few. The original
    must not be written while a fork is in use.
    """

    __slots__ = ("_original",)
    _original: Self

    def fork(self) -> Self:
        """The same state, to decide on without this one noticing."""
        twin = type(self).__new__(type(self))
        twin._original = self
        return twin

    if not TYPE_CHECKING:  # for the type checker, a name that is no field is an error

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
