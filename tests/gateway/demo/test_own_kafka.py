"""A cluster of its own needs a folder of Apache Kafka, and Java. test_story.py runs one."""

from pathlib import Path

import pytest
import trio

from gateway.demo.errors import DemoError
from gateway.demo.own_kafka import own_kafka, why_not
from gateway.error_groups import first_of


def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is tried before."""
    assert "--kafka-home" in (why_not(None) or "")
    assert why_not(tmp_path) == (
        f"there is no Apache Kafka in {tmp_path}: it has no libs/kafka_*.jar; give another"
        " --kafka-home"
    )
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-4.3.1.jar").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}")
    assert "Apache Kafka needs java" in (why_not(tmp_path) or "")
    (tmp_path / "java").write_text("#!/bin/sh\n")
    (tmp_path / "java").chmod(0o700)
    assert why_not(tmp_path) is None


async def test_a_broker_that_does_not_start_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here its storage cannot be formatted."""
    (tmp_path / "java").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "java").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    failure: Exception | None = None
    with trio.fail_after(60):
        try:
            async with own_kafka(tmp_path, 3):
                pass
        except* DemoError as group:
            failure = first_of(group)
    assert "Apache Kafka ended (exit status 1:" in str(failure)
