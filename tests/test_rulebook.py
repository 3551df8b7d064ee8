"""The rulebook in `gateway/docs/protocol/`: every citation leads to a rule, and every rule to its
code and tests."""

import re
from collections import Counter
from pathlib import Path

import pytest

from gateway.data_path.api_table import API_TABLE, ApiHandling
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from tests.support import rulebook
from tests.support.codecs import NOT_IN_KAFKA
from tests.support.rulebook import (
    FIELDS,
    PAGES,
    PATH,
    ROOT,
    Deviation,
    Rule,
    pages_on_disk,
    read_rulebook,
)

BOOK = read_rulebook(pages_on_disk())
RULES = [rule for rule in BOOK.rules if not rule.is_section]
OLD_CITATION = re.compile(r"\b[Ss]pec(?:\s+section)?\s+\d")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


def texts() -> list[Path]:
    """All files that may cite a rule, including the rulebook."""
    folders = [ROOT / name for name in ("codecs", "coordinator", "gateway", "tests")]
    inside = [
        path for folder in folders for kind in ("*.py", "*.md") for path in folder.rglob(kind)
    ]
    plants = {Path(__file__), Path(rulebook.__file__)}
    return sorted({*inside, *ROOT.glob("*.md")} - plants)


def name_of(value: object) -> str:
    """The name of a test parameter."""
    match value:
        case Path():
            return str(value.relative_to(ROOT))
        case Rule(number=number) | Deviation(name=number):
            return number
        case _:
            return str(value)


def test_every_citation_resolves() -> None:
    """Rules, rows, scenarios, invariants and deviations, in code, tests and docs."""
    dangling = {
        name_of(path): missing
        for path in texts()
        if (missing := BOOK.unresolved_citations(path.read_text()))
    }
    assert dangling == {}


def test_no_citation_names_an_external_document() -> None:
    """A citation is "rule 3.7", not the number of a document outside the repository."""
    assert [name_of(path) for path in texts() if OLD_CITATION.search(path.read_text())] == []


def test_each_number_names_one_rule() -> None:
    """A citation leads to one place."""
    numbers = Counter(rule.number for rule in BOOK.rules)
    names = Counter(deviation.name for deviation in BOOK.deviations)
    assert [rule for rule, count in (numbers + names).items() if count > 1] == []
    assert len(RULES) > 50
    assert len(BOOK.deviations) > 40


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_a_rule_names_its_source_code_and_tests(rule: Rule) -> None:
    """Named files exist, or the line is "none" with a reason."""
    assert rule.fields.keys() == set(FIELDS)
    for field in ("Code", "Tests"):
        places = PATH.findall(rule.fields[field])
        assert places or rule.fields[field].startswith("none, ")
        assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("deviation", BOOK.deviations, ids=name_of)
def test_a_deviation_names_its_rules_and_its_code(deviation: Deviation) -> None:
    """Each of these rules cites it."""
    assert deviation.anchor == deviation.name
    assert deviation.code
    assert [place for place in deviation.code if not (ROOT / place).exists()] == []
    pointing_here = {rule.number for rule in RULES if deviation.name in rule.deviations}
    assert set(deviation.rules) == pointing_here, "its row names the rules that link to it"


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_the_deviations_of_a_rule_exist(rule: Rule) -> None:
    assert rule.deviations <= {deviation.name for deviation in BOOK.deviations}
    assert rule.deviations or rule.fields["Deviations"] == "none"


def test_every_scenario_and_invariant_has_its_row() -> None:
    """`test_every_scenario.py` checks their tests."""
    rows = {rule.number: rule.rows for rule in BOOK.rules}
    assert rows["10"] == {str(number) for number in range(1, 100)}
    assert rows["12.1"] == {str(number) for number in range(1, 11)}


@pytest.mark.parametrize("page", sorted(PAGES.parent.rglob("*.md")), ids=name_of)
def test_links_in_the_docs_resolve(page: Path) -> None:
    """These are files, and anchors of deviations."""
    anchors = {deviation.name.lower() for deviation in BOOK.deviations}
    for target, anchor in LINK.findall(page.read_text()):
        assert not target or (page.parent / target).exists(), target
        assert not anchor or anchor in anchors, anchor


@pytest.mark.parametrize(
    "page", [*sorted(PAGES.parent.rglob("*.md")), ROOT / ".github" / "CONTRIBUTING.md"], ids=name_of
)
def test_the_files_that_docs_name_exist(page: Path) -> None:
    """Paths are relative to the top of the repository."""
    named = PATH.findall(page.read_text())
    assert [place for place in named if not (ROOT / place).exists()] == []


def test_the_functions_that_the_architecture_names_exist() -> None:
    """The page writes a method as `Class.method`."""
    page = (PAGES.parent / "architecture.md").read_text()
    named = re.findall(r"`([A-Z]\w+)\.(\w+)`", page)
    assert len(named) > 10
    code = [path.read_text() for path in texts() if path.suffix == ".py"]
    assert [
        f"{owner}.{method}"
        for owner, method in named
        if not any(f"class {owner}" in text and f"def {method}(" in text for text in code)
    ] == []


def test_the_table_of_versions_matches_the_data_path() -> None:
    """Every api that the gateway answers or inspects has its row (rule 1.1)."""
    rows = re.findall(
        r"^\| \w+ \| (\d+) \|.*\| (\d+|never) \| (\d+)(?:\u2013(\d+))?(, without upstream)? \|$",
        pages_on_disk()["errors-and-versions.md"],
        re.MULTILINE,
    )
    for number, flexible, low, high, without_upstream in rows:
        key = ApiKey(int(number))
        entry = API_TABLE[key]
        first = "never" if key.first_flexible_version is None else str(key.first_flexible_version)
        served = (first, entry.min_version, entry.max_version, entry.without_upstream)
        assert served == (flexible, int(low), int(high or low), bool(without_upstream)), key
    needs_row = {
        key
        for key, entry in API_TABLE.items()
        if entry.treatment in (ApiHandling.ANSWER, ApiHandling.INSPECT)
    }
    assert needs_row - {ApiKey(int(row[0])) for row in rows} == {*NOT_IN_KAFKA}


def test_the_table_of_codes_has_all_codes_of_the_engine() -> None:
    """Rule 1.4."""
    page = pages_on_disk()["errors-and-versions.md"]
    rows = re.findall(r"^\| (-?\d+) \| ([A-Z_]+) \|", page, re.MULTILINE)
    engines = {(str(code.value), code.name) for code in ErrorCode if code}
    assert engines <= set(rows)


def test_the_index_names_every_page() -> None:
    index = (PAGES / "README.md").read_text()
    pages = {path.name for path in PAGES.glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"({page})" not in index} == set()


PLANTED = {
    "a.md": (
        "# 3 A section\n\n### 3.7 Reconciling\n\n| # | what |\n|---|---|\n| 1 | first |\n\n"
        "- Kafka: X\n- Code: `coordinator/engine.py`\n- Tests: none, it is data\n"
        "- Deviations: [D5](deviations.md#d5)\n"
    ),
    "b.md": "# 10 Scenarios\n\n## First\n\n| 34 | a story |\n\n## Second\n\n| 35 | another |\n",
    "c.md": "# 12.1 Invariants\n\n| 8 | replay |\n",
    "d.md": '| <a id="d5"></a>D5 stale | a | b | 3.7, 3.8 | `coordinator/a.py`, `tests/b.py` |\n',
}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("as rule 3.7 says", []),
        ("as rule 3.8 says", ["rule 3.8"]),
        ("Rules 3.7, 3.8 and 3.9", ["rule 3.8", "rule 3.9"]),
        ("rules 3.6 to 3.7", ["rule 3.6"]),
        ("rule 3.7 row 1", []),
        ("rule 3.7 rows 1 to 3", ["rule 3.7 row 3"]),
        ("rule 3.7 row 1 and 4.1", ["rule 4.1"]),
        ("rule 3", []),
        ("rule 4", ["rule 4"]),
        ("a rule\n    # 3.9 that wraps", ["rule 3.9"]),
        ("scenarios 34 and 35, scenario 92", ["scenario 92"]),
        ("invariant 8, invariants 8 and 11", ["invariant 11"]),
        ("DEV D5: so", []),
        ("DEV D5, D6: so", ["D6"]),
        ("deviation D7", ["D7"]),
        ("DEV: so", ["DEV..."]),
        ("two rules, 1,000 members, the rule of 3", []),
    ],
)
def test_a_planted_citation_is_found(text: str, missing: list[str]) -> None:
    """The check can fail."""
    assert read_rulebook(PLANTED).unresolved_citations(text) == missing


def test_a_planted_page_is_read() -> None:
    book = read_rulebook(PLANTED)
    section, rule = (rule for rule in book.rules if rule.page == "a.md")
    assert section.is_section
    assert (rule.number, rule.name, rule.rows) == ("3.7", "Reconciling", frozenset({"1"}))
    assert rule.deviations == {"D5"}
    (deviation,) = book.deviations
    assert deviation.rules == ("3.7", "3.8")
    assert deviation.code == ("coordinator/a.py", "tests/b.py")


@pytest.mark.parametrize(
    ("text", "is_old"),
    [
        ("(spec 3.7)", True),
        ("Spec section 8", True),
        ("(spec\n    3.7)", True),
        ("the spec says", False),
    ],
)
def test_a_planted_old_citation_is_found(text: str, is_old: bool) -> None:
    assert bool(OLD_CITATION.search(text)) is is_old


def test_the_index_lists_every_page() -> None:
    """Other pages of a folder are listed by the folder's own index."""
    docs = PAGES.parent
    listed = {target for target, _anchor in LINK.findall((docs / "README.md").read_text())}
    assert {page.name for page in docs.glob("*.md")} - {"README.md"} <= listed
