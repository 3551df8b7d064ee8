"""The complete report of a few hand-written groups."""

import pytest

from gateway.pipeline.report import group_story
from gateway.pipeline.report.digest import Digest, report
from gateway.pipeline.report.group_story import names, ownership_map
from gateway.pipeline.report.model import GroupStory, Report
from tests.support.report_tables import Row, arrival, gap, member, owner, tables

S = 1_000


def of(group_id: str, *rows: Row) -> list[Row]:
    """The rows of that group."""
    return [{**row, "group_id": group_id} for row in rows]


TIMELINE = [
    *of(
        "calm",
        member(None, None, 0, None),
        member("a", "classic", 0, 100 * S),
        member("b", "consumer", 100 * S, None, instance_id="worker-1"),
    ),
    *of("bad", member("x", "classic", 10 * S, None), member("y", "consumer", 20 * S, None)),
    *of("slow", member("z", "classic", 0, 40 * S)),
]
OWNERSHIP = [
    *of(
        "calm",
        owner("a", None, 100 * S),
        gap(100 * S, 102 * S, empty_ms=500),
        owner("b", 102 * S, None),
    ),
    *of(
        "bad",
        owner("x", 10 * S, 30 * S),
        owner("y", 20 * S, None),
        {
            "kind": "overlap",
            "member_id": "y",
            "other_member_id": "x",
            "from_ms": 20 * S,
            "to_ms": 30 * S,
        },
        {"kind": "overlap", "member_id": "y", "other_member_id": "x", "to_ms": 30 * S},
        owner("x", 10 * S, 20 * S, partition=1, basis="stated"),
    ),
    *of(
        "slow",
        owner("z", 0, 10 * S),
        gap(10 * S, 20 * S, empty_ms=0),
        owner("z", 20 * S, 40 * S),
        gap(40 * S, None),
    ),
]
UP = {"direction": "classic->consumer", "from_ms": 100 * S, "to_ms": 104 * S, "is_complete": True}
MOVED = {"members_disturbed": 2, "partitions_moved": 5, "partitions_moved_least": 3}


@pytest.fixture(scope="module")
def made() -> Report:
    """A report with sections for two of the three groups."""
    rows: dict[str, list[Row]] = dict(  # noqa: C408  (as arguments of `tables`)
        changes=of("calm", arrival("consumer", 100 * S)),
        timeline=TIMELINE,
        ownership=OWNERSHIP,
        offsets=[
            *of("bad", {"finding": "non_monotonic", "from_ms": 50 * S, "to_ms": 51 * S}),
            *of("bad", {"finding": "seek", "from_ms": 52 * S, "to_ms": 200 * S}),
            *of("calm", {"finding": None, "from_ms": 1 * S, "to_ms": 2 * S}),
        ],
        wrong_starts=of("bad", {"at_ms": 55 * S, "finding": "lost"}),
        sequences=[
            *of("bad", {"missing_from": 3, "missing_to": 5, "from_ms": 60 * S}),
            {
                "group_id": None,
                "cluster_id": "",
                "missing_from": 9,
                "missing_to": 9,
                "from_ms": 0,
            },
        ],
        contradictions=[
            *of("bad", {"sequence": 7, "at_ms": 55 * S}),
            {"group_id": None, "cluster_id": "", "process_id": "p", "sequence": 7, "at_ms": 1},
        ],
        migrations=of("calm", UP),
        rebalances=[*of("calm", MOVED, MOVED), *of("bad", MOVED)],
        readiness=[
            {
                "software_name": "lib",
                "software_version": "1",
                "protocol": "classic",
                "members": 4,
                "can_convert": True,
                "speaks_consumer": True,
            }
        ],
        rejected=[
            {"file": "f", "place": "7", "group_id": None},
            {"file": "g", "place": "1", "group_id": "calm"},
        ],
    )
    digests = []
    for group_id in ("calm", "bad", "slow", None):
        its_rows = {
            name: [row for row in some if row.get("group_id", "calm") == group_id]
            for name, some in rows.items()
            if name != "rejected"
        }
        digest = Digest(top=2)
        key = None if group_id is None else ("", group_id)
        digest.add(key, tables(**its_rows, rejected=[] if group_id else rows["rejected"]))
        digests.append(digest)
    whole = Digest(top=2)
    for digest in digests:
        whole.merge(Digest.model_validate_json(digest.model_dump_json()))
    return _drawn(whole, rows)


def _drawn(whole: Digest, rows: dict[str, list[Row]]) -> Report:
    end_ms = whole.figures.to_ms
    assert end_ms is not None
    drawn = {}
    for each in whole.worst:
        of_group = tables(
            **{
                name: [row for row in rows[name] if row["group_id"] == each.group_id]
                for name in ("ownership", "timeline")
            }
        )
        told = ownership_map(of_group.ownership, each.shown(end_ms), each.full_span(end_ms), 600)
        assert told is not None
        drawn[each.key] = told, names(told, of_group.timeline)
    return report(whole, drawn)


def test_totals_include_all_groups(made: Report) -> None:
    """They include groups without a section, and lines without a group."""
    assert made.totals.model_dump() == {
        "from_ms": 0,
        "to_ms": 200 * S,
        "groups": 3,
        "groups_on_consumer": 1,
        "groups_mixed": 1,
        "groups_on_classic": 1,
        "migrations": 1,
        "migrations_back": 0,
        "migrations_complete": 1,
        "partitions": 3,
        "overlaps": 2,
        "non_monotonic": 1,
        "unsure": 0,
        "lost_commits": 1,
        "unsure_commits": 0,
        "unsure_starts": 0,
        "skips": 0,
        "differences": 0,
        "missing_events": 4,
        "contradictions": 2,
        "rejected_lines": 2,
        "unread_events": 1,
        "seeks": 1,
        "resets": 0,
        "unowned_partition_s": 11.5,
        "unowned_at_end": 0,
        "unowned_in_migrations_partition_s": 1.5,
        "rebalances": 3,
        "members_disturbed": 6,
        "partitions_moved": 15,
        "partitions_moved_least": 9,
    }


def test_groups_with_findings_come_first_then_the_longest_unowned(made: Report) -> None:
    """The number of rebalances does not matter."""
    assert [group.group_id for group in made.groups] == ["bad", "slow"]


def section(made: Report, group_id: str) -> GroupStory:
    """The rows of that group."""
    (found,) = (group for group in made.groups if group.group_id == group_id)
    return found


def test_a_section_has_its_findings(made: Report) -> None:
    """Each has its times and a map. One without a known start has its end."""
    bad = section(made, "bad")
    assert (bad.findings, bad.partitions, bad.rebalances) == (8, 1, 1)
    assert bad.finding_times_ms == (20 * S, 30 * S, 50 * S, 55 * S, 60 * S)
    assert bad.ownership is not None
    assert (bad.ownership.from_ms, bad.ownership.to_ms, bad.ownership.is_all) == (
        16 * S,
        64 * S,
        False,
    )
    (line,) = bad.ownership.partitions
    assert [(each.kind, each.member_id, each.from_ms, each.to_ms) for each in line.intervals] == [
        ("overlap", "y", 16 * S, 30 * S),
        ("owner", "x", 16 * S, 30 * S),
        ("overlap", "y", 20 * S, 30 * S),
        ("owner", "y", 20 * S, 64 * S),
    ]
    assert [(each.member_id, each.protocol) for each in bad.members] == [
        ("x", "classic"),
        ("y", "consumer"),
    ]


def test_a_deleted_group_is_shown_until_its_end(made: Report) -> None:
    """Time without owners after that does not count."""
    slow = section(made, "slow")
    assert (slow.unowned_partition_s, slow.unowned_at_end) == (10.0, 0)
    assert slow.ownership is not None
    assert (slow.ownership.from_ms, slow.ownership.to_ms, slow.ownership.is_all) == (
        0,
        40 * S,
        True,
    )
    assert [(each.classic_members, each.from_ms, each.to_ms) for each in slow.protocol_mixes] == [
        (1, 0, 40 * S),
        (0, 40 * S, 200 * S),
    ]


def test_steps_and_client_versions_include_all_groups(made: Report) -> None:
    """They predict the cost of later migrations, and the members concerned."""
    (cost,) = made.step_costs
    assert (cost.number, cost.steps, cost.unowned_partition_s) == (1, 1, 1.5)
    (client,) = made.clients
    assert (client.software_name, client.ready, client.groups) == ("lib", 4, 1)


def test_evidence_has_rows_with_explained_columns(made: Report) -> None:
    """There is evidence of each kind."""
    non_monotonic = made.evidence["non_monotonic"]
    (row,) = non_monotonic.rows
    assert (row["group_id"], row["finding"], row["from_ms"]) == ("bad", "non_monotonic", 50 * S)
    assert (non_monotonic.columns[0].name, non_monotonic.columns[0].meaning) == (
        "cluster_id",
        "The cluster's own id, empty if no gateway has named it.",
    )
    assert made.evidence["moves_back"].count == 1
    assert made.evidence["missing_events"].count == 2
    assert made.evidence["contradictions"].count == 2
    assert made.evidence["differences"].count == 0
    # The most serious first: an event of a group.
    assert [row["file"] for row in made.evidence["rejected_lines"].rows] == ["g", "f"]


def committed(partition: int, from_s: int, to_s: int, first: int, last: int) -> Row:
    return {
        "topic": "t",
        "partition": partition,
        **{"from_ms": from_s * S, "to_ms": to_s * S, "first": first, "last": last},
    }


def test_a_section_has_the_commits_of_the_partitions_that_stand_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First to latest, wherever the group's rows were closed. The others are counted."""
    monkeypatch.setattr(group_story, "COMMITS_MAX", 2)
    digest = Digest(top=1)
    parts = (
        [committed(0, 1, 2, 10, 20), committed(1, 1, 3, 5, 6), committed(2, 1, 9, 0, 90)],
        [committed(0, 5, 8, 30, 40)],
    )
    for number, rows in enumerate(parts):
        made = tables(offsets=of("g", *rows))
        digest = Digest.model_validate_json(digest.model_dump_json())
        digest.add(("", "g"), made, is_last=number == len(parts) - 1)
    (group,) = report(digest, {}).groups
    found = [
        (each.partition, each.from_ms, each.to_ms, each.first, each.last) for each in group.commits
    ]
    assert found == [(1, 1 * S, 3 * S, 5, 6), (0, 1 * S, 8 * S, 10, 40)]
    assert group.commits_left_out == 1
    assert group.commits_compared_max is None


def test_a_section_tells_that_not_all_commits_were_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_story, "COMMITTED_MAX", 2)
    digest = Digest(top=1)
    digest.add(("", "g"), tables(offsets=of("g", *(committed(n, 1, 2, 0, n) for n in range(3)))))
    (group,) = report(digest, {}).groups
    assert group.commits_compared_max == 2


def test_the_commits_of_a_large_group_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Always to the same partitions, in whatever parts their rows come."""
    monkeypatch.setattr(group_story, "COMMITTED_MAX", 2)
    rows = tables(offsets=of("g", *(committed(n, 1, 2, 0, n) for n in (3, 1, 2, 0)))).offsets
    one: dict[tuple[str, int], group_story.Committed] = {}
    for row in rows:
        group_story.add_commits(one, [row])
    other: dict[tuple[str, int], group_story.Committed] = {}
    group_story.add_commits(other, rows)
    assert one == other
    assert sorted(one) == [("t", 0), ("t", 1)]
