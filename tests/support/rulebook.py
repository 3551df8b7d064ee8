"""Reads `gateway/docs/protocol/`, and finds citations of it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "gateway" / "docs" / "protocol"

FIELDS = ("Kafka", "Code", "Tests", "Deviations")
"""The lines at the end of each rule."""

HEADING = re.compile(r"^#{1,3} (?:(\d+(?:\.\d+)?) )?(.+)$", re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)
FIELD = re.compile(rf"^- ({'|'.join(FIELDS)}): ((?:.+)(?:\n  .+)*)", re.MULTILINE)
PATH = re.compile(r"`((?:coordinator|gateway|codecs|tests)/[\w./-]*)`")
DEVIATION = re.compile(
    r'^\| <a id="d(\d+)"></a>(D\d+) ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$',
    re.MULTILINE,
)

NUMBERS = r"\d+(?:\.\d+)?(?:(?:,? and |, | to | rows? )\d+(?:\.\d+)?)*"
CITATION = re.compile(rf"\b(rule|scenario|invariant)s? ({NUMBERS})", re.IGNORECASE)
DEVIATION_CITED = re.compile(r"\b(?:DEV|[Dd]eviations?) (D\d+(?:(?:, | and )D\d+)*)")
NAMELESS_DEVIATION = re.compile(r"\bDEV\b(?! D\d)")
LINE_BREAK = re.compile(r"\n[ \t]*(?:#+ )?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A numbered heading and its text, up to the next heading."""

    number: str
    name: str
    page: str
    is_section: bool
    """The head of a page that has no rule of its own."""
    rows: frozenset[str]
    fields: Mapping[str, str]

    @property
    def deviations(self) -> set[str]:
        return set(re.findall(r"\bD\d+\b", self.fields.get("Deviations", "")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A row of the table of deviations."""

    name: str
    anchor: str
    rules: tuple[str, ...]
    code: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulebook:
    """All pages. Duplicate names are kept for the tests to find."""

    rules: tuple[Rule, ...]
    deviations: tuple[Deviation, ...]

    def unresolved_citations(self, text: str) -> list[str]:
        """The citations in a text that match nothing in the rulebook."""
        rules = {rule.number: rule.rows for rule in self.rules}
        numbered = {"scenario": rules.get("10", frozenset()), "invariant": rules.get("12.1", ())}
        names = {deviation.name for deviation in self.deviations}
        text = LINE_BREAK.sub(" ", text)
        missing = [name for name in _deviations_cited(text) if name not in names]
        missing += [citation[0] + "..." for citation in NAMELESS_DEVIATION.finditer(text)]
        for citation in CITATION.finditer(text):
            kind = citation[1].lower()
            if kind != "rule":
                known = numbered[kind]
                missing += [
                    f"{kind} {n}" for n in re.findall(r"\d+", citation[2]) if n not in known
                ]
                continue
            for rule, row in _rules_cited(citation[2]):
                if rule not in rules:
                    missing.append(f"rule {rule}")
                elif row is not None and row not in rules[rule]:
                    missing.append(f"rule {rule} row {row}")
        return missing


def read_rulebook(pages: Mapping[str, str]) -> Rulebook:
    """Parse the pages, by their names."""
    rules = [rule for page, text in pages.items() for rule in _rules(page, text)]
    deviations = [
        Deviation(
            name=row[2],
            anchor=f"D{row[1]}",
            rules=tuple(row[6].split(", ")),
            code=tuple(PATH.findall(row[7])),
        )
        for text in pages.values()
        for row in DEVIATION.finditer(text)
    ]
    return Rulebook(rules=tuple(rules), deviations=tuple(deviations))


def pages_on_disk() -> Mapping[str, str]:
    """The shipped pages."""
    return {path.name: path.read_text() for path in sorted(PAGES.glob("*.md"))}


def _rules(page: str, text: str) -> Iterator[Rule]:
    headings = list(HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends, strict=False):
        if heading[1] is None:
            continue
        is_section = heading[0].startswith("# ")
        body = text[heading.end() : len(text) if is_section else end]
        yield Rule(
            number=heading[1],
            name=heading[2],
            page=page,
            is_section=is_section,
            rows=frozenset(ROW.findall(body)),
            fields=dict(FIELD.findall(body)),
        )


def _rules_cited(numbers: str) -> Iterator[tuple[str, str | None]]:
    """The rules and their rows in a citation such as "5.2 rows 4 to 6 and 5.3"."""
    rule, names_rows = "", False
    for word in re.findall(r"rows?|\d+(?:\.\d+)?", numbers):
        if word.startswith("row"):
            names_rows = True
        elif names_rows and "." not in word:
            yield rule, word
        else:
            rule, names_rows = word, False
            yield rule, None


def _deviations_cited(text: str) -> Iterator[str]:
    for citation in DEVIATION_CITED.finditer(text):
        yield from re.findall(r"D\d+", citation[1])
