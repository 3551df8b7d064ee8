"""The command `poe explore`, and its reports."""

import shlex
from pathlib import Path

import pytest

from gateway.hosting.anchor import Anchor
from tests.simulation.explorer import reporting
from tests.simulation.explorer.__main__ import main
from tests.simulation.explorer.small_consumers import Kind
from tests.simulation.explorer.worlds import WORLDS


def test_without_a_world_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed and shape.what in listed for name, shape in WORLDS.items())


def test_the_report_says_how_much_was_played_and_what_is_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["switch"]) == 0
    assert "switch is exhausted: " in capsys.readouterr().out
    assert main(["switch", "--transitions", "50"]) == 0
    report = capsys.readouterr().out
    assert "switch is not exhausted: " in report
    assert " not expanded" in report


def test_an_unknown_world_is_named_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["nowhere"])
    assert end.value.code == 2
    assert "invalid choice: 'nowhere' (choose from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "value", "reason"),
    [
        ("--consumers", "native,modern", "'modern' is none of native, eager, cooperative"),
        ("--consumers", "native,native,native,native,native", "at most 4"),
        ("--budgets", "jump=1", "'jump=1' is no MOVE=N"),
        ("--budgets", "start=1000", "'start=1000' is no MOVE=N"),
    ],
)
def test_wrong_arguments_are_explained(
    capsys: pytest.CaptureFixture[str], flag: str, value: str, reason: str
) -> None:
    with pytest.raises(SystemExit):
        main(["switch", flag, value])
    assert reason in capsys.readouterr().err


def test_an_altered_world_can_be_repeated() -> None:
    shape = reporting.alter_shape(
        WORLDS["switch"],
        consumers=("eager", "native", "native"),
        partitions=3,
        budgets={"start": 3, "lose": 1},
        from_start=True,
    )
    assert (shape.classic, shape.partition_count, shape.begins_at_rest) == (Kind.EAGER, 3, False)
    assert reporting.command(shape) == (
        "poe explore switch --consumers eager,native,native --partitions 3"
        " --budgets start=3,lose=1 --from-start"
    )
    assert reporting.command(WORLDS["switch"]) == "poe explore switch"


def test_a_finding_ends_with_a_script_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(Anchor, "confirm", lambda _anchor: -1)
    assert main(["eager"]) == 1
    report = capsys.readouterr().out
    assert "Broken: " in report
    command, _, rest = report.partition("To replay it:\n")[2].partition("\n")
    assert command == "poe explore eager --replay - <<'END'"
    script = tmp_path / "script"
    script.write_text(rest.partition("END")[0])
    assert main([shlex.split(command)[2], "--replay", str(script)]) == 1
    assert "anchor in doubt" in capsys.readouterr().out


def test_a_script_of_allowed_moves_breaks_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("switch a\nsend a\n")
    assert main(["switch", "--replay", str(script)]) == 0
    assert "Nothing broke." in capsys.readouterr().out
    script.write_text("fly\n")
    assert main(["switch", "--replay", str(script)]) == 1
    assert "'fly', is none of" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["switch", "--replay", str(tmp_path / "nothing")])
    assert "--replay: can't read '" in capsys.readouterr().err
