"""Small bugs that a developer might write: each mutant changes one place of a file.

Pure: source in, changes out. Annotations, decorators, assertions, message texts and logging are
left alone, because no test should depend on them.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

_OPPOSITES: dict[type, type] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult},
    **{ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr},
}
_OTHER_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGS = {"log", "_log", "logger"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_UNTOUCHED = (ast.JoinedStr, ast.Assert, ast.pattern, ast.arg, ast.Import, ast.ImportFrom)


@dataclass(frozen=True, slots=True)
class Mutant:
    """The bytes from `start` to `end` of a file become `new`. `was` and `becomes` are for
    people."""

    file: str
    line: int
    name: str
    """The name of its function, or of the file's own level."""
    function: int | None
    """The first line of its function as in code objects, or None outside."""
    start: int
    end: int
    new: bytes
    was: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.name}: {self.was}  ->  {self.becomes}"

    def applied_to(self, source: bytes) -> bytes:
        """The source with this bug in it."""
        return source[: self.start] + self.new + source[self.end :]


def mutants_of(file: str, source: bytes) -> Iterator[Mutant]:
    """All mutants of one file, in the order of its lines."""
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    for node, new, place in _walk(ast.parse(source), _Place("the module", None)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        was = " ".join(source[start:end].decode().split())
        yield Mutant(file, node.lineno, *place, start, end, new.encode(), was, new)


class _Place(NamedTuple):
    """A function, or what is outside of functions."""

    name: str
    line: int | None


_Node = ast.expr | ast.stmt
_Found = tuple[_Node, str, _Place]


def _walk(node: ast.AST, place: _Place) -> Iterator[_Found]:
    if isinstance(node, _UNTOUCHED) or _is_log(node) or _is_type(node):
        return
    if isinstance(node, _Function):
        line = min(statement.lineno for statement in (node, *node.decorator_list))
        place = _Place(node.name, line)
    for changed, new in _changes(node):
        yield changed, new, place
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "returns", "annotation", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, place)


def _changes(node: ast.AST) -> Iterator[tuple[_Node, str]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OPPOSITES:
            yield node, f"({_with(node, ops=[_OPPOSITES[type(op)]()])})"
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in _OPPOSITES:
            yield node, f"({_with(node, op=_OPPOSITES[type(op)]())})"
        case ast.AugAssign(op=op) if type(op) in _OPPOSITES:
            yield node, _with(node, op=_OPPOSITES[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if _is_plain(test):
            yield test, f"(not {ast.unparse(test)})"
        case ast.comprehension(ifs=ifs):
            yield from ((condition, "True") for condition in ifs)
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() as value):
            yield node, str(value + 1)
        case ast.Call(func=ast.Name(id=name) as func) if name in _OTHER_CALLS:
            yield func, _OTHER_CALLS[name]
        case ast.keyword(value=value) if not isinstance(value, ast.Constant):
            yield value, "None"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield value, "None"
        case ast.Raise() if "AssertionError" in ast.unparse(node):
            pass  # the code says that this never happens
        case ast.Raise() | ast.Continue() | ast.Expr(value=ast.Call() | ast.Await()):
            yield node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case _:
            pass


def _with(node: ast.expr | ast.stmt, **changed: object) -> str:
    other = copy.copy(node)
    for name, value in changed.items():
        setattr(other, name, value)
    return ast.unparse(other)


def _is_plain(test: ast.expr) -> bool:
    """Whether the condition has no other mutant."""
    return not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant) and not (
        isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"
    )


def _is_log(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _LOGS
        case _:
            return False


def _is_type(node: ast.AST) -> bool:
    """A type alias, or code for type checkers only."""
    match node:
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.BitOr())):
            return name.strip("_")[:1].isupper() and not name.isupper()
        case ast.Call(func=ast.Name(id="TypeVar" | "NewType")):
            return True
        case _:
            return False
