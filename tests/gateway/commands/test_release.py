"""What `groupferry release` prints, and its exit status."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.board.views import GroupList
from gateway.commands import dispatch
from gateway.control.messages import (
    CommandRefused,
    ListGroups,
    Order,
    Question,
    ReleaseAnswer,
    ReleaseCommand,
)
from tests.support.fake_gateway import fake_gateway

NATIVE = "n at 10.0.0.1 (n-1) uses the new protocol"


def line(group_id: str) -> dict[str, Any]:
    """The group's line in the list. The cluster serves "direct", and "away" for the time being."""
    counts = ("group_epoch", "assignment_epoch", "members", "native_members", "unowned_partitions")
    sums = ("unowned_partition_s", "owned_twice", "disturbed", "conversions")
    return {
        "group_id": group_id,
        "mode": "hosted" if group_id not in ("direct", "away") else "forwarded",
        "is_adopted": group_id == "away",
        "type": "classic",
        "state": "Stable",
        "policy": "allow",
        "lag": None,
        "behind_ms": None,
        "lag_at_ms": None,
        "stands": "",
        "blocker": None,
        "since_ms": None,
        **dict.fromkeys((*counts, *sums), 0),
    }


class Gateway:
    """A gateway whose groups are named after what becomes of them."""

    def __init__(self, *group_ids: str) -> None:
        self.hosted = list(group_ids)

    async def carry_out(
        self, command: Question | Order, _given_by: str
    ) -> GroupList | ReleaseAnswer:
        if isinstance(command, ListGroups):
            return GroupList.model_validate(
                {"groups": [line(group_id) for group_id in self.hosted], "next_after": None}
            )
        assert isinstance(command, ReleaseCommand)
        match group_id := command.group_id:
            case "native":
                return ReleaseAnswer(
                    group_id=group_id, is_released=False, reasons=(NATIVE, "so does m")
                )
            case "busy":
                raise CommandRefused("the gateway is busy")
            case _ if command.dry_run:
                return ReleaseAnswer(group_id=group_id, is_released=False)
            case _:
                return ReleaseAnswer(group_id=group_id, is_released=True, unowned_ms=120)


@pytest.mark.parametrize(
    ("arguments", "hosted", "status", "out", "err"),
    [
        (["a"], (), 0, ["a is released; its partitions were without an owner for 120 ms"], []),
        (["a", "--dry-run"], (), 0, ["a can be released"], []),
        (
            ["native"],
            (),
            1,
            [],
            [f"native is not released: {NATIVE}", "native is not released: so does m"],
        ),
        (["busy"], (), 1, [], ["busy is not released: the gateway is busy"]),
        (["--all"], (), 0, ["no group is hosted or adopted"], []),
        (["--all", "--dry-run"], ("a", "b"), 0, ["a can be released", "b can be released"], []),
        (["--all", "--dry-run"], ("away", "direct"), 0, ["away can be released"], []),
        (
            ["--all"],
            ("a", "busy", "direct"),
            1,
            ["a is released; its partitions were without an owner for 120 ms"],
            ["busy is not released: the gateway is busy"],
        ),
    ],
)
async def test_a_release_prints_its_outcome(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    hosted: tuple[str, ...],
    status: int,
    out: list[str],
    err: list[str],
) -> None:
    """A line for each group on stdout; what prevents it on stderr, one line each."""
    async with fake_gateway(tmp_path, Gateway(*hosted).carry_out):
        run = partial(dispatch.run, ["release", *arguments, f"--state-dir={tmp_path}"])
        assert await trio.to_thread.run_sync(run) == status
    printed = capsys.readouterr()
    assert sorted(line for line in printed.out.splitlines() if "command_" not in line) == out
    assert printed.err.splitlines() == [f"groupferry: {line}" for line in err]


def test_without_a_gateway_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert dispatch.run(["release", "--all", f"--state-dir={tmp_path}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("groupferry: no group is released: no gateway is running in")
