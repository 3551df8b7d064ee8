"""Rounds have the result of one fold of all lines, and a killed round counts once or not at all."""

import inspect
import io
import json
import pickle
import random
import re
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partialmethod
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow.dataset import dataset

from gateway.pipeline import PipelineError, following
from gateway.pipeline.fold.folding import (
    GATEWAY,
    GROUP,
    Item,
    ItemKey,
    SourceLine,
    read_items,
)
from gateway.pipeline.fold.order import OutOfOrderError
from gateway.pipeline.fold.sequences import OTHER, Number, RunKey, RunsFold
from gateway.pipeline.folder import DATABASE, Folder
from gateway.pipeline.following import Following, History, Items, Subject, states_version
from gateway.pipeline.report.verdict import judge
from gateway.pipeline.tables import FOLDED_TABLES, SCHEMAS, arrow_table, read_rows
from tests.e2e.follow_loop import history
from tests.gateway.pipeline.fold.test_stories import FOLDER as STORIES
from tests.gateway.pipeline.stories import START_MS, Story, play_story, sections, stories
from tests.support.folded_lines import fold_texts, sources, summary_of

VERSION = version("groupferry")
KEY = ItemKey(GATEWAY, "g", 1, "p")
RUN = RunKey(*KEY[1:])
DAY_S = 24 * 60 * 60
DAYS = """0 load
1 grant a t-0
100 load a:t-0
200 commit a t-0=5
300 load a:t-0
400 end a t-0 left
400 grant b t-0
"""


def test_a_group_begins_with_its_last_state_before() -> None:
    texts = play_story(DAYS).lines
    ((key, items),) = items_of(texts).items()
    for at_s, first in ((50, 0), (150, 2), (350, 4), (500, 4)):
        left = following.since({key: items}, START_MS + at_s * 1000)
        assert [text for _at_ms, text, *_place in left[key]] == texts[first:], at_s
    assert following.since({key: items}, START_MS) == {key: items}
    assert [row.kind for row in fold_texts(*texts[4:]).unread] == ["no end"]


EQUAL_TIMES = """0 host 5
0 load
1 grant a t-0
100 end a t-0 left
100 grant a t-1
100 host 6
100 load a:t-1
100 end a t-1 left
100 grant b t-1
100 commit b t-1=3
"""


def test_a_group_begins_behind_lines_of_the_same_time() -> None:
    """Their numbers tell which come before. A commit that is reported later belongs before, too."""
    late = json.loads(play_story(EQUAL_TIMES.replace("100 host 6", "99 commit a t-1=2")).lines[5])
    late |= {"at_ms": START_MS + 103_000, "sequence": 90}
    texts = [*play_story(EQUAL_TIMES).lines, json.dumps(late)]
    items = items_of(texts)
    ((key, left),) = following.since(items, START_MS + 101_000).items()
    assert sorted(text for _at_ms, text, *_place in left) == sorted(texts[6:-1])
    assert [row.kind for row in fold_texts(*texts[6:-1]).unread] == ["no end"]
    assert left == following.since({key: left}, START_MS + 101_000)[key]


def test_groups_of_one_name_begin_in_their_clusters() -> None:
    texts = play_story(DAYS).lines
    days = re.sub(r"^(\d+)", r"\1 @h", DAYS.replace("300 load", "310 load"), flags=re.MULTILINE)
    others = play_story(f"- cluster-id d\n{days}").lines
    ((_key, left),) = following.since(items_of([*texts, *others]), START_MS + 350_000).items()
    assert sorted(text for _at_ms, text, *_place in left) == sorted([*texts[4:], *others[4:]])


def items_of(texts: Sequence[str]) -> Items:
    """The lines of the groups in their order."""
    items: dict[ItemKey, list[Item]] = {}
    for key, item in read_items(SourceLine("f", "", text) for text in texts):
        if key.kind == GROUP:
            items.setdefault(key, []).append(item)
    return items


def test_one_number_stands_for_all_before() -> None:
    """A gap among them is forgotten, and one behind them is not."""
    numbers = [Number(n, 10 * n, 1, n) for n in (1, 2, 4, 5, 6, 8)]
    ((key, left),) = following.since({KEY: numbers}, 55).items()
    assert [number.sequence for number in left] == [5, 6, 8]
    fold = RunsFold("g")
    fold.take(RunKey(*key[1:]), left)
    missing = [(row.first, row.last) for row in fold.finish() if row.kind == "missing"]
    assert missing == [(7, 7)]


def test_numbers_come_in_their_order() -> None:
    """Repeats of the latest one and further contents included. One that belongs before others needs
    all of them again."""
    numbers = [Number(n, 10 * n, OTHER, content) for n, content in NUMBERS]
    fold = RunsFold("g")
    for place, number in enumerate(numbers, 1):
        fold.take(RUN, [number])
        whole = RunsFold("g")
        whole.take(RUN, numbers[:place])
        assert list(fold.finish()) == list(whole.finish())
    kinds = Counter(row.kind for row in fold.finish())
    assert kinds == {"missing": 1, "conflict": 1, "no end": 1}
    with pytest.raises(OutOfOrderError):
        fold.take(RUN, [Number(4, 40, OTHER, 4)])


def test_numbers_of_the_last_minute_may_come_in_any_order() -> None:
    """A round reads one partition of a topic after the other, so lines arrive out of order."""
    gateway, rounds = History(Subject(GATEWAY, "g")), ((1, 2, 4), (3, 6), (5, 7), (300, 301))
    for sequences in rounds:
        gateway.take({KEY: [Number(n, 1000 * n, OTHER, n) for n in sequences]})
    assert [
        (row.first, row.kind) for row in pickle.loads(pickle.dumps(gateway)).finish().unread
    ] == [
        (8, "missing"),
        (301, "no end"),
    ]
    with pytest.raises(OutOfOrderError):
        gateway.take({KEY: [Number(3, 3_000, OTHER, 3)]})


NUMBERS = (1, 1), (2, 2), (2, 2), (2, 98), (2, 99), (3, 3), (5, 5), (6, 6)


def batches_of(lines: Sequence[str], rng: random.Random) -> list[list[SourceLine]]:
    """Lines in batches of any length."""
    places = [SourceLine("f", f"byte {number}", text) for number, text in enumerate(lines)]
    cuts = sorted(rng.sample(range(len(lines)), min(6, len(lines))))
    return [places[start:end] for start, end in pairwise([0, *cuts, len(lines)])]


@pytest.mark.parametrize("path", list(stories(STORIES)), ids=lambda path: path.stem)
def test_two_rounds_have_the_verdict_of_one_fold(path: Path, tmp_path: Path) -> None:
    """Each story is divided anywhere, and the lines of every other one come in any order."""
    texts, rng = play_story(sections(path)[0]).lines, random.Random(path.stem)
    if rng.randrange(2):
        rng.shuffle(texts)
    followed, place = Following(Folder(f"{tmp_path}"), top=1), rng.randrange(len(texts) + 1)
    followed.take_in(sources(texts)[:place], {})
    summary = followed.take_in(sources(texts)[place:], {})
    assert judge(summary).lines == judge(summary_of(*texts)).lines


def differences(output: Path, *lines: str) -> list[str]:
    """The tables that are not those of one fold. A line has another place there."""
    expected, names = fold_texts(*lines), []
    for name in FOLDED_TABLES:
        columns = [it for it in SCHEMAS[name].names if it not in ("file", "place")]
        stored = dataset(output / "tables" / name, partitioning="hive", format="parquet")
        rows = stored.to_table(columns=columns).to_pylist()
        true = arrow_table(name, getattr(expected, name))
        if Counter(map(repr, rows)) != Counter(map(repr, true.select(columns).to_pylist())):
            names.append(name)
    return names


@pytest.mark.parametrize("seed", range(3))
def test_rounds_have_the_result_of_one_fold(seed: int, tmp_path: Path) -> None:
    """The groups stay with a gateway or move. Their lines are late, cut, or there twice. Another
    process continues after any round."""
    rng = random.Random(seed)
    lines = history(rng, groups=4)
    stream = Following(Folder(f"{tmp_path}"), top=1)
    for batch in batches_of(lines, rng):
        if rng.random() < 0.3:
            stream = Following(Folder(f"{tmp_path}"), top=1)
        summary = stream.take_in(batch, {})
    assert differences(tmp_path, *lines) == []
    assert summary.sums == summary_of(*lines).sums
    assert Following(Folder(f"{tmp_path}"), top=1).summary() == summary


def test_a_round_that_is_killed_anywhere_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it deletes or writes a file, or asks the database."""
    rng, left = random.Random(0), [0]
    lines = history(rng, groups=3)

    def die_after_calls(call: Callable[..., object], *given: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            raise Crashed
        return call(*given)

    for owner, name in ((Folder, "delete"), (Folder, "write_bytes"), (Following, "_query")):
        monkeypatch.setattr(
            owner, name, partialmethod(_through, die_after_calls, getattr(owner, name))
        )
    crashes = 0
    for number, batch in enumerate(batches_of(lines, rng)):
        for left[0] in (*rng.choices(range(1, 90), k=3), 0):
            try:
                stream = Following(Folder(f"{tmp_path}"), top=1)
                if stream.offsets() != {"f": number + 1}:
                    stream.take_in(batch, {"f": number + 1})
            except Crashed:
                crashes += 1
    assert crashes > 3
    assert differences(tmp_path, *lines) == []


def _through(
    owner: object, die: Callable[..., object], call: Callable[..., object], *given: object
) -> object:
    return die(call, owner, *given)


class Crashed(Exception):
    """End like a killed process."""


@pytest.mark.parametrize(
    "progress", [(VERSION,), (1, VERSION), ("more", f"{VERSION}+00000000"), ("another one",)]
)
def test_what_another_version_has_written_is_refused(
    progress: Sequence[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says what to do, also if no line is new: the states are not read. A version with the
    same number may have other code."""
    lines = history(random.Random(0), groups=2)
    Following(Folder(f"{tmp_path}"), top=1).take_in(batches_of(lines, random.Random(1))[0], {})
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute("update progress set json = ?", (json.dumps([{}, 0, *progress]),))
        database.execute("drop table items")
    monkeypatch.setattr(pickle, "loads", None)
    with pytest.raises(PipelineError, match="delete it, or choose another folder"):
        Following(Folder(f"{tmp_path}"), top=1)


def test_the_version_of_states_changes_with_the_code_that_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Developers need not remember to change it. All classes that a state has come from these
    sources."""
    Following(Folder(f"{tmp_path}"), top=1).take_in(
        [SourceLine("f", "", line) for line in history(random.Random(0), groups=2)], {}
    )
    modules = set[str]()

    class Named(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> object:
            modules.add(module)
            return super().find_class(module, name)

    database = sqlite3.connect(tmp_path / DATABASE)
    for states in database.execute("select history, summary from subjects where history not null"):
        for state in states:
            Named(io.BytesIO(state)).load()
    sources = {
        str(inspect.getsourcefile(sys.modules[name]))
        for name in modules
        if name.startswith("gateway")
    }
    assert sources <= set(map(str, following._PICKLED))
    before = states_version()
    monkeypatch.setattr(following, "_PICKLED", following._PICKLED[1:])
    states_version.cache_clear()
    assert states_version() != before
    states_version.cache_clear()


@pytest.mark.parametrize("where", ["one log", "several logs", "few lines"])
def test_repeats_of_deleted_lines_change_nothing(where: str, tmp_path: Path) -> None:
    """A log may be packed under another name in the folder that is followed. The group may be in
    several logs, or have little more than its last state left."""
    stream = Following(Folder(f"{tmp_path}"), top=1, keep_days=2)
    story, count = Story(), 0
    for sentence in ("0 start", "0 host 5", "0 create", "1 grant b t-0"):
        story.emit(sentence)
    for day in range(5):
        at_s = day * DAY_S
        if where == "few lines" and day == 1:
            story.emit("- group other")
        story.emit(f"{at_s + 1} load b:t-0")
        story.emit(f"{at_s + 60} end b t-0 left")
        story.emit(f"{at_s + 61} grant b t-0")
        story.emit(f"{at_s + 62} commit b t-0={day + 1}")
        if where == "several logs":
            story.emit(f"{at_s + 63} @h fetch x t-0={day + 1}")
        stream.take_in([SourceLine("f", "", line) for line in story.lines[count:]], {})
        count = len(story.lines)
    before = stream.summary()
    for text in story.lines[:7]:
        after = stream.take_in([SourceLine("g", "", text)], {})
        assert judge(after).lines == judge(before).lines, text


def test_old_lines_are_deleted(tmp_path: Path) -> None:
    """The owner of a group that has only committed since is still known, because each day begins
    with what the group has."""
    stream = Following(Folder(f"{tmp_path}"), top=1, keep_days=2)
    story, count = Story(), 0
    story.emit("0 start")
    for day in range(5):
        story.emit(f"{day * DAY_S + 1} load a:t-0")
        for minute in range(10):
            offset = 100 * day + minute + 1
            story.emit(f"{day * DAY_S + 60 * minute + 60} commit a t-0={offset}")
        stream.take_in([SourceLine("f", "", line) for line in story.lines[count:]], {})
        count = len(story.lines)
    (items,) = stream._stored_items(Subject(GROUP, "orders")).values()
    assert len(items) == 33 + 11
    (owner,) = read_rows(Folder(f"{tmp_path}"), "ownership", ["orders"])
    assert owner.member_id == "a"
    (run,) = pq.read_table(tmp_path / "tables" / "unread").to_pylist()
    assert run["kind"] == "no end"


def test_an_event_from_the_future_deletes_nothing(tmp_path: Path) -> None:
    """The clock of one gateway may be wrong by years."""
    now_s = time.time() - START_MS / 1000
    stream = Following(Folder(f"{tmp_path}"), top=1, keep_days=2)
    for number, at_s in enumerate((now_s, now_s + 1_000 * DAY_S)):
        lines = play_story(
            f"- group g{number}\n{now_s - 10} load a:t-0\n{at_s} commit a t-0=1"
        ).lines
        stream.take_in([SourceLine("f", "", line) for line in lines], {})
    assert len(list(read_rows(Folder(f"{tmp_path}"), "groups", ["g0", "g1"]))) == 2
