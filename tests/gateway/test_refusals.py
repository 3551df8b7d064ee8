"""Every refusal that an operator may get is one line and says what to do.

The messages are read from the code: those of exceptions that commands print, and those of the
functions that say why a group cannot be adopted, released or held.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gateway.cli import main

ROOT = Path(__file__).parents[2]
REFUSALS = {
    *("CommandRefused", "NotKnown", "NoControlSocket", "RefusalAnswer"),
    *("OffsetsRefused", "OffsetsInDoubt", "PipelineError", "EventsTopicError"),
    *("StateFolderError", "StateLogUnusable", "ListenError", "SettingsError"),
}
"""Whose messages are printed by a command, or by the start."""
REASONS = {
    "gateway/groups/group_orders.py": ("_why_never", "_why_kept", "why_not_set", "announce_roll"),
    "gateway/hosting/adoptable.py": ("why_not_found", "_reasons"),
    "gateway/hosting/release.py": ("why_not_released",),
    "gateway/commands/offline_release.py": ("_why_not",),
    "gateway/commands/dispatch.py": ("_why_no_demo", "_why_no_offsets", "_why_unusable"),
    "gateway/demo/own_kafka.py": ("why_not",),
    "coordinator/handlers/adoption.py": ("_obstacles",),
}
"""The functions that return or yield refusals."""
MOVES = ("group_orders", "adoption", "release", "giving_back", "moving")
"""The modules whose calls of `refuse` end a command."""
TO_DO = re.compile(
    r"groupferry [a-z]|--[a-z]|nothing to do|stays with the cluster|at most"
    r"|\b(choose|correct|delete|drain|fetch|give|grant|install|leave|look|move|name|needs|pass|point"
    r"|put|raise|remove|repair|restart|restore|roll|run|see|set|start|stop|take|try|update|use|wait"
    r"|write)\b",
    re.IGNORECASE,
)
"""What tells people what to do, or that there is nothing to do."""
OPEN = "{}"


def messages() -> Iterator[tuple[str, str]]:
    """Where each refusal stands, and its text with {} for each value."""
    paths = [path for name in ("coordinator", "gateway") for path in (ROOT / name).rglob("*.py")]
    modules = {path: ast.parse(path.read_text()) for path in sorted(paths)}
    constants = {
        name: text
        for module in modules.values()
        for statement in module.body
        for name, text in _constants(statement)
    }
    for path, module in modules.items():
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and _is_refusal(node, path.stem):
                values = [*node.args, *(keyword.value for keyword in node.keywords)]
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                values = [*_results(node)] if node.name in REASONS.get(name, ()) else []
            else:
                continue
            for value in values:
                if (text := _text(value, constants)) is not None and re.search("[a-z] ", text):
                    yield f"{name}:{value.lineno}", text


def _constants(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    match statement:
        case ast.Assign([ast.Name(name)], ast.Constant(str(text))) if name.isupper():
            yield name, text
        case _:
            pass


def _is_refusal(call: ast.Call, module: str) -> bool:
    match call.func:
        case ast.Name(name):
            return name in REFUSALS
        case ast.Attribute(attr="refuse"):
            return module in MOVES
        case _:
            return False


def _results(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        match node:
            case ast.Return(ast.Tuple(values)):
                yield from values
            case ast.Return(ast.expr() as value) | ast.Yield(ast.expr() as value):
                yield value
            case _:
                pass


def _text(value: ast.expr, constants: Mapping[str, str]) -> str | None:
    match value:
        case ast.Constant(str(text)):
            return text
        case ast.Name(name):
            return constants.get(name)
        case ast.FormattedValue(part):
            return _text(part, constants) or OPEN
        case ast.JoinedStr(parts):
            return "".join(_text(part, constants) or OPEN for part in parts)
        case _:
            return None


def test_every_refusal_is_one_line_that_says_what_to_do() -> None:
    """A message that only puts together others has no words of its own."""
    assert not [(where, text) for where, text in messages() if not _is_helpful(text)]


def _is_helpful(text: str) -> bool:
    if "\n" in text:
        return False
    advice = re.sub(r"(can|does|did) ?not \w+", "", text)
    return len(re.findall("[a-z]{3,}", text)) < 2 or TO_DO.search(advice) is not None


def test_the_refusals_are_found() -> None:
    """The search finds every kind, so that none goes untested when code moves."""
    modules = [where.partition(":")[0] for where, _ in messages()]
    assert len(modules) > 100
    assert REASONS.keys() <= {*modules}


@pytest.mark.parametrize(
    "command",
    [
        *("adopt g", "release g", "release --all", "hold g", "pause g", "allow g", "roll g"),
        *("drain", "restart", "remove", "gateways", "groups", "describe g", "client c"),
        *("readiness", "readiness g", "watch", "watch g", "state", "events", "events --group g"),
        *("offsets reset g --to latest", "offsets delete g --topic t"),
    ],
)
def test_without_a_gateway_each_command_says_so_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says how to name another state folder."""
    assert main([*command.split(), "--state-dir", f"{tmp_path}"]) == 1
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert line.startswith("groupferry: ")
    assert "see --state-dir" in line
    assert not shown.out
