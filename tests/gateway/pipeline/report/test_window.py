"""Plots show the relevant time."""

from gateway.pipeline.report.group_story import around, what_matters
from gateway.pipeline.report.model import Migration

DAY = (0, 86_400_000)


def test_a_short_migration_in_a_long_day_fills_the_plot() -> None:
    """A tenth of its length is added on either side."""
    assert around([(40_000_000, 40_100_000), (40_050_000, 40_200_000)], DAY) == (
        39_980_000,
        40_220_000,
    )


def test_a_single_moment_has_a_second_on_either_side() -> None:
    """A finding may have no duration."""
    assert around([(50_000, 50_000)], DAY) == (49_000, 51_000)


def test_the_whole_time_is_shown_if_it_is_short_or_nothing_is_relevant() -> None:
    """The page then does not mention a section."""
    assert around([(1_000_000, 60_000_000)], DAY) == DAY
    assert around([], DAY) == DAY
    assert around([(5, 5)], (0, 10)) == (0, 10)


def test_migrations_and_findings_are_relevant() -> None:
    """A migration in progress is relevant up to the end."""
    on_the_way = Migration(direction="x", from_ms=5, to_ms=None, is_complete=False)
    over = Migration(direction="x", from_ms=1, to_ms=3, is_complete=True)
    assert list(what_matters([on_the_way, over], [7], (0, 9))) == [(5, 9), (1, 3), (7, 7)]
