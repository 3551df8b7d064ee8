"""Each start of a gateway names the one before."""

from pathlib import Path

import pytest

from gateway.journal.runs import record_run
from gateway.state_log.log import StateLogError
from gateway.state_log.memory import MemoryLog
from gateway.state_log.sqlite import open_sqlite_log


async def test_a_run_names_the_one_before_it_that_has_started(tmp_path: Path) -> None:
    """A process that opens the log and does not start has no lines that could be missing."""
    runs = []
    for starts in (True, False, True):
        async with open_sqlite_log(tmp_path) as log:
            if starts:
                runs.append((await record_run(log, 5), log.run_id))
            assert list(await log.told_group_ids()) == list(await log.group_ids()) == []
    (first, first_run), (second, _run) = runs
    assert first is None
    assert second == first_run


async def test_a_log_that_does_not_answer_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    await record_run(log, 5)

    async def fail(*_given: object) -> None:
        raise StateLogError("no")

    monkeypatch.setattr(log, "append", fail)
    assert await record_run(log, 6) is None
