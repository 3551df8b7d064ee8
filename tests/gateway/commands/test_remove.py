"""What `groupferry remove` prints, and its exit status."""

from pathlib import Path

import pytest
import trio

from gateway.commands import dispatch
from gateway.control.messages import (
    CommandRefused,
    Order,
    Question,
    RemovalAnswer,
    RemoveCommand,
)
from tests.support.fake_gateway import fake_gateway

OLD = "old at 10.0.0.1 (librdkafka 2.3.0) needs a restart: it asks for Metadata v12"
HOSTED = "orders is hosted: groupferry release orders"


@pytest.mark.parametrize(
    ("arguments", "answer", "status", "out", "err"),
    [
        (
            [],
            RemovalAnswer(is_removed=True, redirected=3),
            0,
            ["clients told to resolve bootstrap.servers again: 3; none is left, stop the gateway"],
            [],
        ),
        (
            [],
            RemovalAnswer(is_removed=False, redirected=3, clients_left=(OLD,)),
            1,
            ["clients told to resolve bootstrap.servers again: 3"],
            [OLD],
        ),
        (
            [],
            RemovalAnswer(is_removed=False, reasons=(HOSTED,)),
            1,
            [],
            [f"groupferry: the gateway is not removed: {HOSTED}"],
        ),
        (
            [],
            CommandRefused("the gateway is busy"),
            1,
            [],
            ["groupferry: the gateway is not removed: the gateway is busy"],
        ),
        (
            ["--dry-run"],
            RemovalAnswer(is_removed=False, clients_left=(OLD,)),
            0,
            [OLD, "the gateway can be removed; point bootstrap.servers at the cluster first"],
            [],
        ),
        (
            ["--dry-run"],
            RemovalAnswer(is_removed=False, reasons=(HOSTED,)),
            1,
            [],
            [f"groupferry: the gateway is not removed: {HOSTED}"],
        ),
    ],
)
async def test_a_removal_prints_its_outcome(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    answer: RemovalAnswer | CommandRefused,
    status: int,
    out: list[str],
    err: list[str],
) -> None:
    """Status 0 means that the gateway can be stopped, or, after a dry run, that it can begin."""

    async def carry_out(command: Question | Order, _given_by: str) -> RemovalAnswer:
        await trio.lowlevel.checkpoint()
        assert command == RemoveCommand(dry_run="--dry-run" in arguments)
        if isinstance(answer, CommandRefused):
            raise answer
        return answer

    async with fake_gateway(tmp_path, carry_out):
        words = ["remove", *arguments, f"--state-dir={tmp_path}"]
        assert await trio.to_thread.run_sync(dispatch.run, words) == status
    printed = capsys.readouterr()
    assert (printed.out.splitlines(), printed.err.splitlines()) == (out, err)
