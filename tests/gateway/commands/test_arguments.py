"""Invalid flags are refused before anything starts."""

from pathlib import Path

import pytest

from gateway.commands.arguments import WRONG_CALL, parser


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The error line of an invalid call."""
    with pytest.raises(SystemExit) as end:
        parser().parse_args(arguments)
    assert end.value.code == WRONG_CALL
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("groupferry: ")
    return line


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "the following arguments are required: COMMAND; see groupferry --help"),
        (("ferry",), "invalid choice: 'ferry'"),
        (("serve", "--listn", "x"), "unrecognized arguments: --listn x"),
        (
            ("serve", "--upstream-sasl-password", "hunter2"),
            "the command line is no place for a secret; give GROUPFERRY_UPSTREAM_SASL_PASSWORD",
        ),
        (("demo", "--assignor", "sticky"), "invalid choice: 'sticky'"),
        (("demo", "--consumers", "65"), "'65' is not a number from 1 to 64"),
        (("demo", "--upstream", "kafka"), "kafka is not HOST:PORT"),
        (("demo", "--prefix", "a b"), "'a b' cannot begin a topic's name"),
        (("report", "--output=r", "--upstream=kafka"), "not HOST:PORT"),
        (("report", "--output=r", "--jars=/nowhere/*.jar"), "there is no '/nowhere/*.jar'"),
        (("report", "--output=r", "--conf=spark.x"), "is not spark.NAME=VALUE"),
        (("report",), "required: --output"),
        (("adopt",), "required: GROUP"),
        (("adopt", ""), "a group id has 1 to 32767 bytes"),
    ],
)
def test_an_invalid_argument_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    """The line names the argument and a valid value."""
    assert reason in refusal(capsys, *arguments)


def test_a_flag_cannot_be_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    """An abbreviation could have another meaning in the next release."""
    assert "unrecognized arguments" in refusal(capsys, "demo", "--consumer=3")


def test_the_folder_of_a_gateway_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The flag takes precedence, as for `serve`."""
    monkeypatch.setenv("GROUPFERRY_STATE_DIR", f"{tmp_path}")
    for command in ("state", "events"):
        assert parser().parse_args([command]).state_dir == f"{tmp_path}"
        assert parser().parse_args([command, "--state-dir=x"]).state_dir == "x"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_flags(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    """The script is printed to be sourced."""
    with pytest.raises(SystemExit) as end:
        parser().parse_args(["--print-completion", shell])
    assert not end.value.code
    script = capsys.readouterr().out
    assert all(word in script for word in ("adopt", "dry-run", "max-connections"))
