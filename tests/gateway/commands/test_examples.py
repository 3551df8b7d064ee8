"""The examples at the end of each command's help."""

import shlex

import pytest

from gateway.commands.arguments import parser
from gateway.commands.dispatch import _COMMANDS
from gateway.commands.examples import EXAMPLES, Example

ALL = [example for examples in EXAMPLES.values() for example in examples]


@pytest.mark.parametrize("example", ALL, ids=[example.line for example in ALL])
def test_an_example_is_a_valid_command_line(example: Example) -> None:
    """Each example is one of the command whose help shows it."""
    program, *arguments = shlex.split(example.line)
    assert program == "groupferry"
    command = parser().parse_args(arguments).command
    assert example in EXAMPLES[command]


def test_every_command_has_an_example() -> None:
    """The table names no other commands."""
    assert EXAMPLES.keys() == _COMMANDS.keys()


@pytest.mark.parametrize("command", EXAMPLES)
def test_the_help_of_a_command_ends_with_its_examples(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Line by line."""
    with pytest.raises(SystemExit):
        parser().parse_args([command, "--help"])
    shown = capsys.readouterr().out.partition("examples:\n")[2]
    lines = [line.strip() for line in shown.splitlines()]
    assert lines == [part for example in EXAMPLES[command] for part in example]
