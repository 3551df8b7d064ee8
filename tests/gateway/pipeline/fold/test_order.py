"""The lines of a group in their order, from one log or several."""

import pickle
import random
from functools import partial

import pytest

from gateway.pipeline.fold import folding, order
from gateway.pipeline.fold.folding import LogFold, fold_in_memory, fold_name
from gateway.pipeline.fold.lines import Line, parse
from gateway.pipeline.fold.order import Hosting, OutOfOrderError, key_of, relation
from tests.gateway.pipeline.stories import play_story
from tests.support.event_writer import GROUP, lines_of
from tests.support.folded_lines import join_rows
from tests.support.simulated_events import simulate_events
from tests.support.simulated_lines import write


def parse_all(texts: list[str]) -> list[Line]:
    lines = (parse(text)[0] for text in texts)
    return [line for line in lines if line is not None]


def lines_of_story(*sentences: str) -> list[Line]:
    """The lines of these sentences about the group."""
    lines = parse_all(play_story("\n".join(sentences)).lines)
    return [line for line in lines if line.group_id is not None]


def test_a_commit_stands_where_it_was_stored() -> None:
    """The commit is reported some seconds later, maybe after other events."""
    lines = lines_of_story(
        "1 grant a t-0", "2 commit a t-0=5", "3 end a t-0 left", "3.5 fetch b t-0=5"
    )
    late = lines[1]
    late.after, late.at_ms = 2, late.at_ms + 2_000
    assert sorted(lines, key=key_of) == lines


def test_a_line_of_a_process_follows_the_number_that_it_names() -> None:
    lines = lines_of_story("1 grant a t-0", "1 claim a t-0", "0.5 grant b t-1")[::-1]
    lines.sort(key=key_of)
    assert [line.event for line in lines] == [
        "partitions_assigned",
        "partitions_stated",
        "partitions_assigned",
    ]


def test_a_forwarded_group_is_ordered_by_time() -> None:
    """A forwarded group has no sequence."""
    lines = lines_of_story("1 forward", "2 commit x t-0=5", "3 fetch y t-0=5")
    for line in lines:
        line.began_ms = line.at_ms
    lines[1].began_ms = lines[1].at_ms = lines[2].at_ms + 500
    assert [line.event for line in sorted(lines, key=key_of)] == [
        "group_forwarded",
        "offsets_committed",
        "offsets_fetched",
    ]


def hosting(name: str, first_s: int, last_s: int, **known: object) -> Hosting:
    return Hosting(name, 1, 1, first_s * 1000, last_s * 1000, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        (hosting("g", 0, 10), hosting("h", 71, 80), "before"),
        (hosting("g", 0, 10), hosting("h", 12, 80), "unknown"),
        (hosting("g", 0, 10, generation=5), hosting("h", 12, 80, generation=6), "starts before"),
        (
            hosting("g", 0, 10, generation=5, end="released"),
            hosting("h", 12, 80, generation=6),
            "before",
        ),
        (hosting("g", 0, 10, generation=5, end="taken"), hosting("h", 12, 80), "unknown"),
        (
            hosting("g", 20, 30, generation=5, end="gateway_ended"),
            hosting("h", 12, 80, generation=6),
            "before",
        ),
        # The cluster may have forgotten the group in between, so that generations begin again.
        (
            hosting("g", 0, 10, generation=5, end="released"),
            hosting("h", 12, 80, generation=1),
            "unknown",
        ),
        # Clocks tell the order of hostings that begin more than a minute apart.
        (hosting("g", 0, 100, end="released"), hosting("h", 102, 180), "before"),
        (hosting("g", 0, 100), hosting("h", 102, 180), "starts before"),
    ],
)
def test_generations_and_clocks_order_hostings(one: Hosting, other: Hosting, how: str) -> None:
    assert relation(one, other) == how
    reverse = {"before": "after", "starts before": "starts after"}
    assert relation(other, one) == reverse.get(how, how)


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_gives_the_rows_of_a_whole_history(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are released once no later one can come before them."""
    texts = lines_of({GROUP: partial(write, simulate_events(seed))})
    lines = sorted(
        (line for line in parse_all(texts) if line.group_id), key=lambda line: line.at_ms
    )
    whole = join_rows(fold_in_memory(GROUP, lines))
    monkeypatch.setattr(folding, "BUFFERED_MS", 5_000)
    monkeypatch.setattr(order, "REPORT_DELAY_MS_MAX", 5_000)
    fold = LogFold(GROUP)
    fold.take(lines)
    assert join_rows(fold.finish()) == whole
    assert join_rows(fold_name(GROUP, lines)) == whole


def test_a_fold_can_be_put_aside_between_any_two_lines() -> None:
    """What it says in between is as if nothing followed."""
    texts = lines_of({GROUP: partial(write, simulate_events(3))})
    lines = sorted(
        (line for line in parse_all(texts) if line.group_id), key=lambda line: line.at_ms
    )
    fold = LogFold(GROUP)
    for number in range(0, len(lines), 7):
        fold.take(lines[number : number + 7])
        packed = pickle.dumps(fold)
        assert join_rows(fold.finish()) == join_rows(fold_in_memory(GROUP, lines[: number + 7]))
        fold = pickle.loads(packed)


def test_lines_whose_times_do_not_order_them_are_all_folded_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clock was set back by an hour."""
    texts = lines_of({GROUP: partial(write, simulate_events(0))})
    lines = [line for line in parse_all(texts) if line.group_id]
    for line in lines[len(lines) // 2 :]:
        line.at_ms -= 3_600_000
    by_time = sorted(lines, key=lambda line: line.at_ms)
    monkeypatch.setattr(folding, "WAITING_MAX", 100)
    with pytest.raises(OutOfOrderError):
        LogFold(GROUP).take(by_time)
    rng = random.Random(0)
    shuffled = rng.sample(lines, len(lines))
    assert join_rows(fold_name(GROUP, by_time)) == join_rows(fold_in_memory(GROUP, shuffled))
