"""The verdict in words."""

from typing import get_args

import pytest

from gateway.pipeline.fold.folding import fold_lines
from gateway.pipeline.fold.rows import FindingKind, UnreadKind
from gateway.pipeline.report.summary import SAMPLE_MAX, SUMMARIES, Summary
from gateway.pipeline.report.verdict import FAULTS, UNREAD, judge
from tests.gateway.pipeline.stories import play_story
from tests.support.folded_lines import sources, summary_of

SAFE = """0 start
0 host 5
0 load
1 grant a {0}
3 commit a {0}=50
4 end a {0} revoked
4 grant b {0}
5 fetch b {0}=50
9 stop
"""


def lines(text: str) -> list[str]:
    return play_story(text).lines


def test_the_first_line_is_the_verdict_and_the_second_how_much_it_saw() -> None:
    verdict = judge(summary_of(*lines(SAFE.format("t-0"))))
    assert verdict.lines == ("SAFE", "1 of 1 hand-over compared; 1 first grant; 1 group")
    assert verdict.is_safe


def test_nothing_is_safe_without_a_line() -> None:
    verdict = judge(Summary())
    assert verdict.headline == "NOT PROVEN: no line is about a group"
    assert not verdict.is_safe


def test_a_certain_fault_outweighs_what_is_not_proven() -> None:
    text = SAFE.format("t-0").replace("fetch b t-0=50", "fetch b t-0=40")
    verdict = judge(summary_of(*lines(text), "garbage"))
    assert verdict.headline == "NOT SAFE: 1 lost commit (group orders: t-0)"
    assert "1 line could not be read:" in verdict.lines


@pytest.mark.parametrize("more", [0, 5])
def test_the_first_findings_are_listed_and_the_rest_counted(more: int) -> None:
    count = SAMPLE_MAX + more
    verdict = judge(summary_of(*lines(SAFE.format("t-0")), *["garbage"] * count))
    assert f"{count} lines could not be read" in verdict.headline
    assert sum(line.startswith("  file line") for line in verdict.lines) == SAMPLE_MAX
    assert (f"  and {more} more" in verdict.lines) == bool(more)


def test_names_from_events_cannot_control_a_terminal() -> None:
    text = SAFE.format("t-0").replace("fetch b t-0=50", "fetch b t-0=40")
    changed = [line.replace("orders", "\\u001b[2Jx") for line in lines(text)]
    assert all("\x1b" not in line for line in judge(summary_of(*changed)).lines)


def test_summaries_of_groups_add_up() -> None:
    """Summaries add up in any order, also as JSON."""
    texts = [
        *lines(SAFE.format("t-0")),
        *lines("- group other\n" + SAFE.format("p-0").replace("=50", "=5")),
        "garbage",
    ]
    whole, total = summary_of(*texts, top=2), Summary(top=2)
    for tables in reversed(list(fold_lines(sources(texts)))):
        part = Summary(top=2)
        part.add(tables)
        total.merge(SUMMARIES.validate_json(SUMMARIES.dump_json(part)))
    assert total == whole
    assert judge(total) == judge(whole)


def test_every_kind_has_words() -> None:
    assert set(FAULTS) == set(get_args(FindingKind))
    assert set(UNREAD) == set(get_args(UnreadKind))
