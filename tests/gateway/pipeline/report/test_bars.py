"""What each step cost, and which client versions can go next."""

from gateway.pipeline.report.bars import READINESS, client_name, readiness_bars, step_bars
from gateway.pipeline.report.model import StepCost
from tests.support.html_pages import Page
from tests.support.reports import client_version


def cost(number: int, unowned: float) -> StepCost:
    """Of two migrations."""
    return StepCost(
        number=number, steps=2, unowned_partition_s=unowned, unowned_partition_s_most=unowned
    )


def test_bars_of_steps_are_as_long_as_their_cost() -> None:
    """With the figure behind them."""
    page = Page(step_bars([cost(1, 2.0), cost(2, 1.0), cost(3, 0.0)]))
    widths = [float(each.attributes["width"] or 0) for each in page.named("rect", "unowned")]
    assert widths[0] == 2 * widths[1]
    assert widths[2] == 1
    figures = [each.text for each in page.named("text", "figure")]
    assert figures == ["2 p·s in 2 migrations", "1 p·s in 2 migrations", "0 p·s in 2 migrations"]


def test_steps_without_any_cost_can_be_drawn() -> None:
    """As when nothing was ever without an owner."""
    assert Page(step_bars([cost(1, 0.0)])).wrong == []


def test_members_of_a_version_are_side_by_side_by_what_they_can_do() -> None:
    """Kinds that nobody is of are left out."""
    page = Page(readiness_bars([client_version("a", "1", on_consumer=1, too_old=3)]))
    rects = page.named("rect")
    assert [each.attributes["class"] for each in rects] == ["consumer", "too-old"]
    first, second = (float(each.attributes["width"] or 0) for each in rects)
    assert second == 3 * first
    assert float(rects[1].attributes["x"] or 0) == float(rects[0].attributes["x"] or 0) + first
    assert [each.text for each in page.named("text", "figure")] == ["4 members"]


def test_every_kind_of_readiness_can_be_drawn() -> None:
    """With a title that says what it means."""
    client = client_version("a", "1", on_consumer=1, ready=1, too_old=1, unknown=1, blocked=1)
    text = Page(readiness_bars([client])).text
    assert all(f"a 1: 1 member, {meaning}" in text for meaning, _ in READINESS.values())


def test_a_client_is_called_what_it_says() -> None:
    """Clients before Kafka 2.4 say nothing."""
    assert client_name(client_version("a", "1")) == "a 1"
    assert client_name(client_version("a", None)) == "a"
    assert client_name(client_version(None, None)) == "(unnamed client)"
