"""The places that mutants change, and those that they leave alone."""

import ast
from pathlib import Path

import pytest

from tests.mutation.harmless import harmless, key_of
from tests.mutation.mutants import mutants_of


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("a < b", ["(a <= b)"]),
        ("a is not b", ["(a is b)"]),
        ("a and b or c", ["((a and b) and c)", "(a or b)"]),
        ("a - b", ["(a + b)"]),
        ("a += b", ["a -= b"]),
        ("not a", ["(a)"]),
        ("if a:\n    b", ["(not a)"]),
        ("[a for a in b if c]", ["True"]),
        ("x = True, 7, None", ["False", "8"]),
        ("min(a)", ["pass", "max"]),
        ("a = f(b, c=d)", ["None"]),
        ("a.b = c", ["pass"]),
        ("raise a", ["pass"]),
        ("def f():\n    return a", ["None"]),
    ],
)
def test_one_place_is_changed(source: str, mutants: list[str]) -> None:
    """The result is valid Python."""
    changed = list(mutants_of("a.py", source.encode()))
    assert [mutant.becomes for mutant in changed] == mutants
    for mutant in changed:
        ast.parse(mutant.applied_to(source.encode()))


@pytest.mark.parametrize(
    "source",
    [
        '"text"',
        "a: int | None",
        "Alias = A | B",
        "Alias: TypeAlias = A | B",
        "def f(a: A | B) -> A | B: ...",
        "@dataclass(frozen=True)\nclass A: ...",
        "assert a < b",
        "log.info('text', a=b)",
        'x = f"{a + b}"',
        "match a:\n    case 1: ...",
    ],
)
def test_places_that_no_test_should_depend_on_are_left_alone(source: str) -> None:
    """These are types, messages, logs, and plain declarations."""
    assert list(mutants_of("a.py", source.encode())) == []


def test_a_mutant_names_its_place() -> None:
    """The place has file and line for people, and the function as in code objects, decorators
    included."""
    source = "x = 1\n\n@d\ndef f():\n    return 'ä' + g(1)\n"
    first, *_, last = mutants_of("a.py", source.encode())
    assert (str(first), first.function) == ("a.py:1 in the module: 1  ->  2", None)
    assert (str(last), last.function) == ("a.py:5 in f: 1  ->  2", 3)
    assert last.applied_to(source.encode()).decode() == source.replace("g(1)", "g(2)")


def test_every_mutant_of_the_engine_is_valid_python() -> None:
    """An invalid one would count as noticed."""
    folder = Path(__file__).parent.parent.parent / "coordinator"
    for path in (*folder.glob("*.py"), *folder.glob("conversion/*.py")):
        source = path.read_bytes()
        for mutant in mutants_of(path.name, source):
            ast.parse(mutant.applied_to(source))


def test_the_code_still_has_every_mutant_listed_as_harmless() -> None:
    """The reason of a mutant that is gone may no longer hold."""
    root = Path(__file__).parent.parent.parent
    files = {file for file, *_ in harmless()}
    listed = [m for file in files for m in mutants_of(file, (root / file).read_bytes())]
    assert harmless().keys() - {key_of(mutant) for mutant in listed} == set()


def test_every_mutant_listed_as_harmless_has_a_reason() -> None:
    """A list without reasons would hide missing tests."""
    assert all(harmless().values())
