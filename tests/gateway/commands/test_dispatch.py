"""The commands: valid combinations of options, exit status, and one line per failure."""

from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.commands import dispatch, offsets
from gateway.control.messages import (
    AdoptCommand,
    AdoptionAnswer,
    AllowCommand,
    CommandRefused,
    DrainAnswer,
    DrainCommand,
    HoldCommand,
    Order,
    Outcome,
    PauseCommand,
    PolicySet,
    Question,
    RollCommand,
)
from tests.support.fake_gateway import fake_gateway

FAILED, WRONG_CALL = 1, 2


def error_line(capsys: pytest.CaptureFixture[str], status: int, *arguments: str) -> str:
    """The error line of a failed command."""
    assert dispatch.run(arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("groupferry: ")
    return line


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ("demo", "--rate", "1001", "--partitions", "1"),
            "--rate: at most 1000 for 1 partitions",
        ),
        (("demo", "--prefix", "mine"), "--prefix: works only with --upstream"),
        (
            ("demo", "--story", "--static"),
            "--story: a group whose leader is static cannot be adopted; leave out --static",
        ),
        (
            ("demo", "--story", "--kafka-home=/nowhere"),
            "--story: there is no Apache Kafka in /nowhere: it has no libs/kafka_*.jar",
        ),
        (("report", "--output=r"), "nothing to report on"),
        (("report", "--output=r", "--events-topic=events"), "needs --upstream"),
        (("report", "--output=r", "in", "--upstream=kafka:9092"), "needs --events-topic"),
        (
            ("report", "--output=r", "in", "--follow", "--check"),
            "--check: does not work with --follow",
        ),
        (
            ("report", "--output=r", "in", "--follow", "--conf=spark.driver.memory=2g"),
            "--follow runs without Spark",
        ),
    ],
)
def test_incompatible_options_are_a_usage_error(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    """The check precedes everything else, above all the start of Spark."""
    assert reason in error_line(capsys, WRONG_CALL, *arguments)


def test_a_demo_needs_a_new_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Files of an earlier run would count as those of the same cluster."""
    (tmp_path / "lock").touch()
    line = error_line(capsys, WRONG_CALL, "demo", f"--state-dir={tmp_path}")
    assert line.endswith(f"{tmp_path} is not empty; give a new folder")
    line = error_line(capsys, WRONG_CALL, "demo", f"--state-dir={tmp_path / 'lock'}")
    assert line.endswith("Not a directory")


@pytest.mark.parametrize(("command", "what"), [("state", "no state log"), ("events", "no events")])
def test_a_folder_without_a_gateway_is_a_failure_with_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, what: str
) -> None:
    """The line also names the flag for the folder."""
    line = error_line(capsys, FAILED, command, f"--state-dir={tmp_path}")
    assert what in line
    assert f"{tmp_path}" in line
    assert "see --state-dir" in line


def test_an_error_line_has_no_control_characters(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An external name must not control the terminal."""
    line = error_line(capsys, FAILED, "state", f"--state-dir={tmp_path}/\x1b[2J")
    assert "\x1b" not in line


OUTSIDE = "b at 10.0.0.2 (b-2) has not come through this gateway"
MARKED = "without members in the cluster, it is hosted from its next join on, until it is released"
NOT_STABLE = "the cluster says that it is PreparingRebalance"


def adoption(command: AdoptCommand) -> AdoptionAnswer:
    """The groups are named after what becomes of them."""
    group_id = command.group_id
    match group_id:
        case "adoptable":
            if command.dry_run:
                return AdoptionAnswer(group_id=group_id, is_adopted=False)
            return AdoptionAnswer(group_id=group_id, is_adopted=True, held_ms=120)
        case "empty":
            return AdoptionAnswer(group_id=group_id, is_adopted=False, is_marked=True)
        case "misspelt":
            return AdoptionAnswer(
                group_id=group_id, is_adopted=False, is_marked=True, is_known=False
            )
        case "beside":
            reasons = (OUTSIDE, NOT_STABLE)
            return AdoptionAnswer(group_id=group_id, is_adopted=False, reasons=reasons)
        case _:
            raise CommandRefused("groups_adopt is never")


async def steer(command: Question | Order, _given_by: str) -> Outcome:
    """A gateway that hosts only "orders"."""
    match command:
        case HoldCommand() | PauseCommand() | AllowCommand():
            reason = () if command.group_id == "orders" else ("the cluster serves it",)
            return PolicySet(group_id=command.group_id, policy=command.command, reasons=reason)
        case RollCommand(end=is_over):
            return PolicySet(group_id="orders", policy="end of roll" if is_over else "roll")
        case AdoptCommand():
            return adoption(command)
        case DrainCommand():
            return DrainAnswer(is_draining=not command.dry_run, connections=3, hosted=2)
        case _:
            raise CommandRefused("no")


ROLLED = "being rolled: the partitions of a consumer that leaves wait for its replacement"
HELD = "on hold: no further consumer switches to the new protocol"


@pytest.mark.parametrize(
    ("arguments", "status", "out", "err"),
    [
        (["hold", "orders"], 0, [f"orders: it is {HELD}"], []),
        (["roll", "orders"], 0, [f"orders: it is {ROLLED}"], []),
        (["roll", "orders", "--end"], 0, ["orders: it is no longer being rolled"], []),
        (["hold", "orders", "--dry-run"], 0, [f"orders: it would be {HELD}"], []),
        (
            ["pause", "orders"],
            0,
            [
                "orders: it is paused: no further consumer switches, and the target assignment"
                " stays as it is"
            ],
            [],
        ),
        (
            ["allow", "orders"],
            0,
            ["orders: it is allowed: its consumers may switch to the new protocol"],
            [],
        ),
        (["hold", "b"], FAILED, [], ["b stays as it is: the cluster serves it"]),
        (
            ["drain", "--dry-run"],
            0,
            ["the gateway would end 3 connections; 2 hosted groups stay in its state log"],
            [],
        ),
        (
            ["drain"],
            0,
            ["the gateway ends 3 connections; 2 hosted groups stay in its state log"],
            [],
        ),
        (["adopt", "adoptable"], 0, ["adoptable is adopted; its calls were held for 120 ms"], []),
        (["adopt", "adoptable", "--dry-run"], 0, ["adoptable can be adopted"], []),
        (["adopt", "empty"], 0, [f"empty is adopted: {MARKED}"], []),
        (
            ["adopt", "misspelt"],
            0,
            [
                "misspelt is adopted: it is not known yet; it is hosted from its next join on,"
                " until it is released"
            ],
            [],
        ),
        (["adopt", "empty", "--dry-run"], 0, [f"empty can be adopted: {MARKED}"], []),
        (
            ["adopt", "beside"],
            FAILED,
            [],
            [f"beside is not adopted: {reason}" for reason in (OUTSIDE, NOT_STABLE)],
        ),
        (["adopt", "never"], FAILED, [], ["never is not adopted: groups_adopt is never"]),
    ],
)
async def test_a_command_to_the_gateway_prints_its_outcome(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    status: int,
    out: list[str],
    err: list[str],
) -> None:
    """What prevents it is on stderr, one line each."""
    async with fake_gateway(tmp_path, steer):
        run = partial(dispatch.run, [*arguments, f"--state-dir={tmp_path}"])
        assert await trio.to_thread.run_sync(run) == status
    shown = capsys.readouterr()
    assert shown.out.splitlines() == out
    assert shown.err.splitlines() == [f"groupferry: {line}" for line in err]


def test_an_adoption_needs_a_running_gateway(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The line names the folder and the flag."""
    line = error_line(capsys, FAILED, "adopt", "orders", f"--state-dir={tmp_path}")
    assert line.endswith(f"no gateway is running in {tmp_path}: start it, or see --state-dir")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (offsets.OffsetsRefused("why"), "the offsets of g stay as they are: why"),
        (offsets.OffsetsInDoubt("1 of 2 are deleted; why"), "the offsets of g: 1 of 2 are deleted"),
    ],
)
def test_offsets_that_may_have_changed_are_not_said_to_stay(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    text: str,
) -> None:
    async def delete(*_arguments: object, dry_run: bool) -> None:
        raise error

    monkeypatch.setattr(offsets, "delete", delete)
    line = error_line(capsys, FAILED, "offsets", "delete", "g", "--topic=t", "--gateway=h:1")
    assert text in line
