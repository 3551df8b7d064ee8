"""Names and first words that a machine can judge."""

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
CODECS = ROOT / "codecs" / "kafka_codecs"
COORDINATOR = ROOT / "coordinator"
GATEWAY = ROOT / "gateway"

MODULE = re.compile(r"(?<![\w./])(?:\w+/)*\w+\.py\b")

VAGUE = {"each", "found", "some", "mine", "said", "told", "kept", "most", "least"}
"""Names that say nothing of what a variable holds."""
LEANING = {
    *("Also", "And", "As", "Else", "However", "It", "Nor", "Of", "Otherwise", "Then", "They"),
    "Those",
}
"""First words of a docstring that need another text before them."""
POSSESSIVE = {"Its", "Their"}
"""First words of a docstring that do not say whose."""
REFERRING = re.compile(
    r"The same(?:[,.]| (?:after|as|but|for|holds|in|of|to|where|with|without)\b)"
)
"""First words of a docstring that refer to the text before it."""
IRREGULAR = {
    *("begun", "done", "found", "given", "gone", "heard", "held", "kept", "known", "left", "lost"),
    *("made", "met", "said", "seen", "sent", "shown", "spoken", "taken", "told", "written"),
    "rewritten",
}
"""Participles that do not end in "ed"."""
NO_PARTICIPLES = {"embed", "exceed", "feed", "need", "proceed", "seed", "speed", "succeed"}


Check = Callable[[ast.Module], Iterator[str]]


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text())


def modules(*folders: Path) -> Iterator[Path]:
    """The modules in these folders."""
    for folder in folders:
        yield from sorted(folder.rglob("*.py"))


def variables(tree: ast.Module) -> Iterator[str]:
    """The names of variables and parameters, where they get a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def vague_variables(tree: ast.Module) -> Iterator[str]:
    """The variables and parameters with a name that says nothing."""
    yield from (name for name in variables(tree) if name in VAGUE)


def docstrings(tree: ast.Module) -> Iterator[str]:
    """All docstrings, those of constants and fields included."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text
            case _:
                pass


def first_word(text: str) -> str:
    """The first word of a docstring."""
    return re.split(r"\W", text.lstrip(), maxsplit=1)[0]


def leaning_docstrings(tree: ast.Module) -> Iterator[str]:
    """The texts that do not stand alone."""
    for text in docstrings(tree):
        if first_word(text) in LEANING or REFERRING.match(text.lstrip()):
            yield text


def bare_participles(tree: ast.Module) -> Iterator[str]:
    """The functions whose whole name is a participle."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name.lstrip("_")
            is_regular = name.endswith("ed") and "_" not in name and name not in NO_PARTICIPLES
            if is_regular or name in IRREGULAR:
                yield node.name


RULES: Mapping[str, Check] = {
    "vague variables": vague_variables,
    "leaning docstrings": leaning_docstrings,
    "bare participles": bare_participles,
}
"""What a rule forbids."""


NO_NOUNS = {"asked", "lately", "spoken"}
"""Names of variables that tell what happened instead of what they hold. Those that begin with
`its_` or `of_` tell whose it is."""


def nounless_variables(tree: ast.Module) -> Iterator[str]:
    """The variables and parameters that are not named after what they hold."""
    for name in variables(tree):
        if name in NO_NOUNS or name.startswith(("its_", "of_")):
            yield name


def unowned_docstrings(tree: ast.Module) -> Iterator[str]:
    """The docstrings that do not say whose something is."""
    yield from (text for text in docstrings(tree) if first_word(text) in POSSESSIVE)


TRANSLATED = re.compile(
    r"\b(?:(?:some|any|every)body|whoever|beside|by\s+now|as\s+yet|on\s+account\s+of"
    r"|go(?:es|ne|ing)?\s+on|went\s+on|(?:is|are|was|were|been)\s+told\s+of"
    r"|nor\s+(?:is|are|was|were|has|have|does|do))\b",
    re.IGNORECASE,
)
"""Idioms that a native speaker would not write here."""


def translated_idioms(source: str, *, is_test: bool = False) -> Iterator[str]:
    """The idioms in the comments, docstrings and other texts of a module. A test's other texts are
    left out."""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        is_data = is_test and not token.string.startswith('"""')
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and not is_data):
            yield from TRANSLATED.findall(token.string)


FORMER_WORDS = {
    *("Aside", "Errand", "Guise", "Happened", "Lane", "Nobody", "Occupants", "Patience"),
    *("Presence", "Pressure", "Tell", "Told", "Visitor", "Facilities"),
}
"""Words of our own that the field's words have replaced."""


def violations(check: Check, *folders: Path) -> dict[str, list[str]]:
    """What breaks a rule, by module."""
    return {
        str(path.relative_to(ROOT)): texts
        for path in modules(*folders)
        if (texts := list(check(parse(path))))
    }


@pytest.mark.parametrize("rule", RULES)
def test_no_name_or_docstring_breaks_a_rule(rule: str) -> None:
    assert violations(RULES[rule], CODECS, COORDINATOR, GATEWAY, TESTS) == {}


def test_the_product_names_nouns_and_owners() -> None:
    """Tests may have other names."""
    assert violations(nounless_variables, CODECS, COORDINATOR, GATEWAY) == {}
    assert violations(unowned_docstrings, CODECS, COORDINATOR, GATEWAY) == {}


def test_no_text_has_a_translated_idiom() -> None:
    """Test data may have any words."""
    objections: dict[str, list[str]] = {}
    for path in modules(CODECS, COORDINATOR, GATEWAY, TESTS):
        is_test = path.is_relative_to(TESTS)
        if path != Path(__file__) and (
            idioms := [*translated_idioms(path.read_text(), is_test=is_test)]
        ):
            objections[str(path.relative_to(ROOT))] = idioms
    assert objections == {}


def test_no_two_classes_share_a_name() -> None:
    """Neither in the gateway nor in the coordinator."""
    homes: dict[str, set[Path]] = defaultdict(set)
    for path in modules(COORDINATOR, GATEWAY):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(path)
    shared = {name for name, paths in homes.items() if len(paths) > 1}
    assert shared == set()


def words_of(path: Path) -> Iterator[str]:
    """The capitalized words in the names of a module and of its classes."""
    yield from (word.capitalize() for word in path.stem.split("_"))
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ClassDef):
            yield from re.findall(r"[A-Z][a-z]+", node.name)


def test_no_replaced_word_returns() -> None:
    """The names of modules and classes use the field's words."""
    returned = {
        str(path.relative_to(ROOT)): words
        for path in modules(CODECS, COORDINATOR, GATEWAY)
        if (words := FORMER_WORDS & set(words_of(path)))
    }
    assert returned == {}


def test_the_modules_that_docstrings_name_exist() -> None:
    """A docstring may give only the end of a path."""
    paths = [f"/{path.relative_to(ROOT)}" for path in modules(CODECS, COORDINATOR, GATEWAY, TESTS)]
    gone = {
        (str(path.relative_to(ROOT)), name)
        for path in modules(CODECS, COORDINATOR, GATEWAY)
        for text in docstrings(parse(path))
        for name in MODULE.findall(text)
        if not any(other.endswith(f"/{name}") for other in paths)
    }
    assert gone == set()


@pytest.mark.parametrize(
    ("rule", "source", "count"),
    [
        ("vague variables", "for each in groups: pass", 1),
        ("vague variables", "def f(told, *, mine): some = [least for least in told]", 4),
        ("vague variables", "groups = each; each.least = 1; f(most=1)", 0),
        ("leaning docstrings", 'LIMIT = 1\n"""Of all connections."""', 1),
        ("leaning docstrings", 'def f():\n    """As `g`, here."""', 1),
        ("leaning docstrings", 'def f():\n    """Offer it."""', 0),
        ("leaning docstrings", 'LIMIT = 2\n"""The same, now."""', 1),
        ("leaning docstrings", 'def f():\n    """The same group twice."""', 0),
        ("bare participles", "def looked(): pass\nasync def _told(): pass", 2),
        ("bare participles", "def on_lookup_finished(): pass\ndef feed(): pass", 0),
    ],
)
def test_a_planted_name_is_found(rule: str, source: str, count: int) -> None:
    assert len(list(RULES[rule](ast.parse(source)))) == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("# Somebody else goes\n", 1),
        ('"""Nor does it, whoever asks."""\n', 2),
        ('text = "the group goes on"\n', 1),
        ('"""The group\n    goes\n    on."""\n', 1),
        ('"""Besides, it continues."""\n', 0),
    ],
)
def test_a_planted_idiom_is_found(source: str, count: int) -> None:
    assert len(list(translated_idioms(source))) == count


def test_a_planted_participle_is_found() -> None:
    source = "def f(asked): its_owner = asked.spoken"
    assert sorted(nounless_variables(ast.parse(source))) == ["asked", "its_owner"]


def test_a_planted_possessive_is_found() -> None:
    source = 'number = 0\n"""Its number."""\nname = ""\n"""The name of a process."""\n'
    assert list(unowned_docstrings(ast.parse(source))) == ["Its number."]
