"""The README's table says what the last full run of the client matrix found."""

from tests.support.matrix import ROLLS
from tests.support.matrix_table import README, in_readme, read_results, table, with_table


def test_every_roll_has_a_result() -> None:
    """In order; a roll that is new or gone needs a full run: `pytest -m matrix`."""
    assert list(read_results()) == [str(roll) for roll in ROLLS]


def test_the_readme_has_the_results() -> None:
    """If not: `python -m tests.support.matrix_table`."""
    assert in_readme(README.read_text()) == table(read_results().values())


def test_a_table_that_says_otherwise_is_found() -> None:
    """A check that never bites is none."""
    results = list(read_results().values())
    other = with_table(README.read_text(), table(results[:-1]))
    assert in_readme(other) != table(results)


def test_each_library_is_rolled_once_in_ci() -> None:
    """Its newest version; the others are for the full run."""
    libraries = [roll.classic.library for roll in ROLLS if roll.is_in_ci]
    assert sorted(libraries) == sorted({roll.classic.library for roll in ROLLS})
    assert not any(roll.classic.version for roll in ROLLS if roll.is_in_ci)
