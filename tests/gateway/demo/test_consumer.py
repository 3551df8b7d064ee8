"""The consumer process, directly with the embedded cluster. Each test has a single member, because
joins of classic members take long there."""

import os
import signal
import time

import pytest

from gateway.demo.reports import (
    AssignedReport,
    ClosedReport,
    CommittedReport,
    ProducedReport,
    RevokedReport,
)
from tests.support.demo_stage import LIMIT_S, PARTITIONS, open_stage


@pytest.mark.parametrize(
    "arguments",
    [("--protocol=classic",), ("--protocol=consumer",), ("--protocol=consumer", "--static")],
)
async def test_a_consumer_consumes_commits_and_revokes(
    arguments: tuple[str, ...],
) -> None:
    """Every record arrives once, every commit is acknowledged, and ownership lasts from callback to
    callback."""
    started_s = time.monotonic()
    async with open_stage() as at:
        producer, produced = await at.produce()
        child, heard = await at.consume(*arguments)
        await heard.until(lambda: len(heard.numbers()) > 300 and bool(heard.of(CommittedReport)))
        await producer.finish(LIMIT_S)
        total = produced.of(ProducedReport)[-1].acknowledged
        await heard.until(lambda: len(heard.numbers()) >= total)
        await child.finish(LIMIT_S)
    everything = set(range(PARTITIONS))
    assert sorted(heard.numbers()) == list(range(total))
    assert {p for report in heard.of(AssignedReport) for p in report.partitions} == everything
    assert {p for report in heard.of(RevokedReport) for p in report.partitions} == everything
    committed = dict(pair for report in heard.of(CommittedReport) for pair in report.offsets)
    assert (
        tuple(committed[p] for p in range(PARTITIONS))
        == produced.of(ProducedReport)[-1].end_offsets
    )
    assert isinstance(heard.all[-1], ClosedReport)
    stamps = [report.at_s for report in heard.all]
    assert stamps == sorted(stamps)
    assert started_s < stamps[0]
    assert stamps[-1] < time.monotonic()


async def test_sigterm_closes_a_consumer() -> None:
    """A consumer stopped by hand leaves its group."""
    async with open_stage() as at:
        child, heard = await at.consume("--protocol=consumer")
        await heard.until(lambda: bool(heard.of(AssignedReport)))
        os.kill(child.pid, signal.SIGTERM)
        await child.ended.wait()
    assert isinstance(heard.all[-1], ClosedReport)
    assert child.describe_exit() == "exit status 0"
