"""Writes the table of answers into the documentation.

    python -m gateway.doc_pages.answers

writes the page. A test fails while the page differs from the table.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gateway.hosting.answers import ANSWERS, GroupApi, RefusalReason
from kafka_codecs.error_codes import ErrorCode

PAGE = Path(__file__).parent.parent / "docs" / "moving-clusters.md"
MARK = "<!-- From here on generated: python -m gateway.doc_pages.answers -->\n"


def page() -> str:
    """The page as it should be: its own text, followed by the table."""
    words, mark, _table = PAGE.read_text().partition(MARK)
    return words + mark + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield ""
    yield "| situation | answer | except |"
    yield "|---|---|---|"
    for cause in RefusalReason:
        codes = {api: ANSWERS[cause, api] for api in GroupApi}
        ((usual, _count),) = Counter(codes.values()).most_common(1)
        by_code: dict[ErrorCode | None, list[str]] = {}
        for api, code in codes.items():
            if code is not usual:
                by_code.setdefault(code, []).append(api.value)
        others = "; ".join(f"{', '.join(apis)}: {_name(code)}" for code, apis in by_code.items())
        yield f"| {cause.value} | {_name(usual)} | {others} |"


def _name(code: ErrorCode | None) -> str:
    return "the cluster's" if code is None else code.name


if __name__ == "__main__":
    PAGE.write_text(page())
