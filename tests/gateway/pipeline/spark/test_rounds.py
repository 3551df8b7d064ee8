"""What a round of `report --follow` takes of a topic."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.addresses import Address
from gateway.pipeline import PipelineError, command, sources
from gateway.pipeline.sources import ROUND_RECORDS_MAX, Sources
from gateway.pipeline.topic import EventsTopic, Span
from tests.support.ports import HOST, free_port


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTopic(EventsTopic):
    """A topic whose cluster says these ends, one after the other."""

    name: str = "events"
    upstream: Sequence[Address] = ()
    ends: list[Sequence[int]] = field(default_factory=list)

    def spans(self, timeout_s: float | None = None) -> list[Span]:
        """All records."""
        ends = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        return [Span(f"kafka:events/{number}", number, 0, end) for number, end in enumerate(ends)]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ELECTION_S", 0)


def rounds_of(*ends: Sequence[int]) -> Sources:
    """The sources of a report on such a topic."""
    return Sources(inputs=(), topic=ToldTopic(ends=list(ends)))


def test_a_round_is_bounded_whatever_the_number_of_partitions() -> None:
    following = rounds_of([ROUND_RECORDS_MAX - 10, 500, 500])
    first = following.find_growth({})
    assert sum(span.end - span.begin for span in first.spans) == ROUND_RECORDS_MAX
    rest = following.find_growth(first.offsets)
    assert sum(span.end - span.begin for span in rest.spans) == 990


def test_a_topic_that_ends_before_what_was_read_is_refused() -> None:
    """The topic was recreated, or has lost records: silence would pass for quiet."""
    with pytest.raises(PipelineError, match="choose another folder"):
        rounds_of([400]).find_growth({"kafka:events/0": 500})


def test_an_end_that_goes_back_for_a_moment_ends_nothing() -> None:
    """That of a leader that has just been elected."""
    grown = rounds_of([400], [520]).find_growth({"kafka:events/0": 500})
    assert [(span.begin, span.end) for span in grown.spans] == [(500, 520)]


@pytest.fixture
def _heeds_ctrl_c() -> Iterator[None]:
    """Have SIGINT interrupt, also in a process of the background, which a shell has ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.timeout(100)
@pytest.mark.usefixtures("_heeds_ctrl_c")
@pytest.mark.parametrize("follows", [True, False])
def test_a_signal_ends_the_wait_for_a_cluster_that_is_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, follows: bool
) -> None:
    """One line says so. librdkafka itself would continue waiting for minutes."""
    topic = EventsTopic(name="events", upstream=(Address(HOST, free_port()),))
    number = signal.SIGTERM if follows else signal.SIGINT
    threading.Timer(1, os.kill, (os.getpid(), number)).start()
    if follows:
        asked = Sources(topic=topic)
        output = f"{tmp_path / 'out'}"
        with pytest.raises(SystemExit) as ended:
            command.run_follow(asked, output, top=1, interval_s=1, keep_days=None)
        assert ended.value.code == 128 + number
        assert (
            capsys.readouterr().err == f"groupferry: stopped; {output} is that of the last round\n"
        )
    else:
        with pytest.raises(KeyboardInterrupt):
            topic.spans(100)
