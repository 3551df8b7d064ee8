"""Draws the states of groups, members, anchors and connections from their tables of legal moves.

    python -m gateway.doc_pages.state_diagrams

writes the page. A test fails while the page differs from the tables.
"""

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from coordinator.consumer import phases as member_phases
from coordinator.group import classic_phases
from coordinator.interface.volatile_records import ClassicPhase, MemberPhase
from gateway.data_path import states as data_path_states
from gateway.hosting import states as hosting_states

PAGE = Path(__file__).parent.parent / "docs" / "states.md"
MARK = "<!-- From here on generated: python -m gateway.doc_pages.state_diagrams -->\n"

Table = Mapping[Any, frozenset[Any] | Mapping[Any, Any]]
"""The next states of each state, as a set or by the event that leads there. None stands for what
is before the first state and after the last. Without it, the first state listed is the first."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One table of moves and its states."""

    title: str
    states: type[Enum]
    moves: Table
    place: str
    """The module of the table."""


MACHINES = (
    Machine("Classic group", ClassicPhase, classic_phases.MOVES, classic_phases.__name__),
    Machine(
        "Classic member of a consumer group",
        MemberPhase,
        member_phases.NEXT,
        member_phases.__name__,
    ),
    Machine(
        "Call of a client", hosting_states.Stage, hosting_states.STAGES, hosting_states.__name__
    ),
    Machine(
        "Engine and log of a group",
        hosting_states.LogPhase,
        hosting_states.LOG,
        hosting_states.__name__,
    ),
    Machine("Anchor", hosting_states.AnchorPhase, hosting_states.ANCHOR, hosting_states.__name__),
    Machine("Commit", hosting_states.CommitPhase, hosting_states.COMMIT, hosting_states.__name__),
    Machine(
        "Adoption of a group",
        hosting_states.AdoptionStage,
        hosting_states.ADOPTION,
        hosting_states.__name__,
    ),
    Machine(
        "Release of a group",
        hosting_states.ReleaseStage,
        hosting_states.RELEASE,
        hosting_states.__name__,
    ),
    Machine(
        "Client connection",
        data_path_states.ClientState,
        data_path_states.CLIENT_MOVES,
        data_path_states.__name__,
    ),
    Machine(
        "Upstream connection",
        data_path_states.UpstreamState,
        data_path_states.UPSTREAM_MOVES,
        data_path_states.__name__,
    ),
)


def diagram(states: type[Enum], moves: Table) -> Iterator[str]:
    """The lines of a Mermaid diagram, in the order of the table and of the states."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    if None not in moves:
        yield f"    [*] --> {_name(next(iter(moves)))}"
    for before, afters in moves.items():
        if isinstance(afters, Mapping):
            for event, after in afters.items():
                cause = event.name.lower().replace("_", " ")
                yield f"    {_name(before)} --> {_name(after)}: {cause}"
        else:
            for after in (*states, None):
                if after in afters or (after is None and not afters):
                    yield f"    {_name(before)} --> {_name(after)}"
    yield "```"


def meanings(states: type[Enum]) -> Iterator[str]:
    """The lines of a Markdown table of the states and the docstrings below them."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(states))).body
    assert isinstance(definition, ast.ClassDef)
    documented = {}
    for assigned, text in itertools.pairwise(definition.body):
        match assigned, text:
            case ast.Assign(targets=[ast.Name(name)]), ast.Expr(ast.Constant(str(meaning))):
                documented[name] = " ".join(meaning.split())
            case _:
                pass
    yield "| state | meaning |"
    yield "|---|---|"
    yield from (f"| {state.value} | {documented.get(state.name, '')} |" for state in states)


def page() -> str:
    """The page as it should be: its own text, followed by the diagrams."""
    words, mark, _diagrams = PAGE.read_text().partition(MARK)
    return (
        words + mark + "\n".join(line for machine in MACHINES for line in _section(machine)) + "\n"
    )


def _section(machine: Machine) -> Iterator[str]:
    about = " ".join((inspect.getdoc(machine.states) or "").split())
    yield from ("", f"## {machine.title}", "")
    yield f"{about} The table: `{machine.place.replace('.', '/')}.py`."
    yield ""
    yield from diagram(machine.states, machine.moves)
    yield ""
    yield from meanings(machine.states)


def _name(state: Enum | None) -> str:
    return "[*]" if state is None else str(state.value)


if __name__ == "__main__":
    PAGE.write_text(page())
