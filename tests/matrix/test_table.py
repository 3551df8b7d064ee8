"""The documented table has the results of the last full run of the client matrix."""

from tests.matrix.matrix_table import PAGE, in_page, read_results, table, with_table
from tests.support.matrix import ROLLS


def test_every_roll_has_a_result() -> None:
    """Results are in order. A new or removed roll needs a full run: `pytest -m matrix`."""
    assert list(read_results()) == [str(roll) for roll in ROLLS]


def test_the_page_has_the_results() -> None:
    """To update it, run `python -m tests.matrix.matrix_table`."""
    assert in_page(PAGE.read_text()) == table(read_results().values())


def test_a_different_table_is_found() -> None:
    """The comparison can fail."""
    results = list(read_results().values())
    other = with_table(PAGE.read_text(), table(results[:-1]))
    assert in_page(other) != table(results)


def test_each_library_is_rolled_once_in_ci() -> None:
    """Its newest version is used. The full run covers the others."""
    libraries = [roll.classic.library for roll in ROLLS if roll.is_in_ci]
    assert sorted(libraries) == sorted({roll.classic.library for roll in ROLLS})
    assert not any(roll.classic.version for roll in ROLLS if roll.is_in_ci)
