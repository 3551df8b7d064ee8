"""The page of states matches the tables."""

from enum import Enum, auto

import pytest

from gateway.doc_pages.state_diagrams import MACHINES, PAGE, Machine, diagram, meanings, page


class Light(Enum):
    """A traffic light."""

    RED = "Red"
    """Cars
    wait."""
    GREEN = "Green"
    DARK = "Dark"
    """Nobody looks at it."""


class Cause(Enum):
    A_CAR_CAME = auto()
    POWER_LOST = auto()


def test_the_page_matches_the_tables() -> None:
    """To regenerate it, run `python -m gateway.doc_pages.state_diagrams`."""
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_every_state_is_drawn_and_explained(machine: Machine) -> None:
    assert {state for state in machine.moves if state is not None} == set(machine.states)
    for state, line in zip(machine.states, list(meanings(machine.states))[2:], strict=True):
        assert line.startswith(f"| {state.value} | "), line
        assert not line.endswith("|  |"), f"{state} has no docstring"


def test_a_table_of_sets() -> None:
    """The first state is where it begins. A state without a next one is an end."""
    moves = {
        Light.RED: frozenset({Light.DARK, Light.GREEN}),
        Light.GREEN: frozenset({Light.RED}),
        Light.DARK: frozenset[Light](),
    }
    assert list(diagram(Light, moves))[2:-1] == [
        "    [*] --> Red",
        "    Red --> Green",
        "    Red --> Dark",
        "    Green --> Red",
        "    Dark --> [*]",
    ]


def test_a_table_with_its_beginnings_and_ends() -> None:
    """None is both."""
    moves = {
        None: frozenset({Light.RED, Light.GREEN}),
        Light.RED: frozenset({None, Light.GREEN}),
        Light.GREEN: frozenset({None}),
    }
    assert list(diagram(Light, moves))[2:-1] == [
        "    [*] --> Red",
        "    [*] --> Green",
        "    Red --> Green",
        "    Red --> [*]",
        "    Green --> [*]",
    ]


def test_a_table_of_events() -> None:
    """The events label the arrows."""
    moves = {Light.RED: {Cause.A_CAR_CAME: Light.GREEN, Cause.POWER_LOST: None}}
    assert list(diagram(Light, moves))[2:-1] == [
        "    [*] --> Red",
        "    Red --> Green: a car came",
        "    Red --> [*]: power lost",
    ]


def test_the_meaning_of_a_state_is_its_docstring() -> None:
    assert list(meanings(Light))[2:] == [
        "| Red | Cars wait. |",
        "| Green |  |",
        "| Dark | Nobody looks at it. |",
    ]
