"""`groupferry explore`."""

import shlex
from pathlib import Path

import pytest

from gateway.commands import explore
from gateway.commands.arguments import CONSUMER_KINDS
from gateway.commands.dispatch import run
from gateway.hosting.anchor import Anchor
from gateway.simulation.explorer.small_consumers import Kind
from gateway.simulation.explorer.worlds import WORLDS


def test_without_a_world_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed and shape.what in listed for name, shape in WORLDS.items())


def test_the_report_says_how_much_was_played_and_what_is_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["explore", "switch"]) == 0
    assert "switch is exhausted: " in capsys.readouterr().out
    assert run(["explore", "switch", "--transitions", "50"]) == 0
    report = capsys.readouterr().out
    assert "switch is not exhausted: " in report
    assert " not expanded" in report


def test_an_unknown_world_is_named_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "nowhere"]) == 2
    error = capsys.readouterr().err
    assert "there is no world 'nowhere', only switch" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("flag", "value", "why"),
    [
        ("--consumers", "native,modern", "'modern' is none of native, eager, cooperative"),
        ("--consumers", "native,native,native,native,native", "at most 4"),
        ("--budgets", "jump=1", "'jump=1' is no MOVE=N"),
        ("--budgets", "start=1000", "'start=1000' is no MOVE=N"),
    ],
)
def test_wrong_arguments_are_explained(
    capsys: pytest.CaptureFixture[str], flag: str, value: str, why: str
) -> None:
    with pytest.raises(SystemExit):
        run(["explore", "switch", flag, value])
    assert why in capsys.readouterr().err


def test_the_command_names_every_kind_of_consumer() -> None:
    assert set(CONSUMER_KINDS) == set(Kind)


def test_an_altered_world_can_be_repeated() -> None:
    shape = explore.altered(
        WORLDS["switch"],
        consumers=("eager", "native", "native"),
        partitions=3,
        budgets={"start": 3, "lose": 1},
        from_start=True,
    )
    assert (shape.classic, shape.partition_count, shape.begins_at_rest) == (Kind.EAGER, 3, False)
    assert explore.command(shape) == (
        "groupferry explore switch --consumers eager,native,native --partitions 3"
        " --budgets start=3,lose=1 --from-start"
    )
    assert explore.command(WORLDS["switch"]) == "groupferry explore switch"


def test_a_finding_ends_with_a_script_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(Anchor, "confirm", lambda _anchor: -1)
    assert run(["explore", "eager"]) == 1
    report = capsys.readouterr().out
    assert "Broken: " in report
    command, _, rest = report.partition("To replay it:\n")[2].partition("\n")
    assert command == "groupferry explore eager --replay - <<'END'"
    script = tmp_path / "script"
    script.write_text(rest.partition("END")[0])
    assert run([*shlex.split(command)[1:3], "--replay", str(script)]) == 1
    assert "anchor in doubt" in capsys.readouterr().out


def test_a_script_of_allowed_moves_breaks_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("switch a\nsend a\n")
    assert run(["explore", "switch", "--replay", str(script)]) == 0
    assert "Nothing broke." in capsys.readouterr().out
    script.write_text("fly\n")
    assert run(["explore", "switch", "--replay", str(script)]) == 1
    assert "'fly', is none of" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run(["explore", "switch", "--replay", str(tmp_path / "nothing")])
    assert "--replay: can't read '" in capsys.readouterr().err
