"""JSON schemas of dataclasses and models, documented by the docstrings of their fields."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict


def _add_meanings(schema: dict[str, Any], of: type[Any]) -> None:
    """Describe the fields, inherited ones included."""
    properties = schema.get("properties", {})
    for base in of.__mro__:
        if base not in (BaseModel, object):
            for name, meaning in _docstrings(base):
                if name in properties:
                    properties[name].setdefault("description", meaning)


def _docstrings(of: type[Any]) -> Iterator[tuple[str, str]]:
    """The fields that a class itself declares with a docstring."""
    tree = ast.parse(inspect.getsource(of)).body[0]
    assert isinstance(tree, ast.ClassDef)
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            yield field.target.id, inspect.cleandoc(after.value.value)


DOCUMENTED = ConfigDict(extra="forbid", defer_build=True, json_schema_extra=_add_meanings)
"""The configuration of classes whose fields have docstrings. A process uses few of them, so each is
built at its first use. Pydantic's own `use_attribute_docstrings` would read all their sources at
every start."""
