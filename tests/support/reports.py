"""Hand-written reports for tests of the page: a small, a hostile and a large one."""

from typing import TypeAlias

from gateway.pipeline.report.model import (
    Cell,
    ClientVersion,
    Column,
    CommitProgress,
    Evidence,
    GroupStory,
    Interval,
    MemberName,
    Migration,
    MigrationStep,
    OwnershipMap,
    PartitionStory,
    ProtocolMix,
    Report,
    StepCost,
    Totals,
)

Row: TypeAlias = dict[str, Cell]

START_MS = 1_800_000_000_000
"""2027-01-15 08:00:00 UTC."""
END_MS = START_MS + 180_000

HOSTILE = '"><script>alert(1)</script>\u202e</title></style>\x00&amp;'
"""Hostile text for a group id, client id or reason."""


def group_story(group_id: str = "orders", *, members: int = 3, partitions: int = 12) -> GroupStory:
    """A group whose members switch one after the other within 30 seconds each. Each step leaves a
    gap."""
    old = [f"consumer-{n}-5afbb67a-1f0c" for n in range(members)]
    new = [f"aiGJ6CAnQlCOP0oQGG3Q+{n}" for n in range(members)]
    gap_ms = (END_MS - START_MS) // (members + 2)
    switches = [START_MS + gap_ms * (n + 1) for n in range(members)]
    bounds = [START_MS, *switches, END_MS]
    mixes = tuple(
        ProtocolMix(
            from_ms=bounds[n],
            to_ms=bounds[n + 1],
            classic_members=members - n,
            consumer_members=n,
        )
        for n in range(members + 1)
    )
    histories = []
    for partition in range(partitions):
        n = partition % members
        at_ms = switches[n]
        hole_ms = 300 + 400 * n
        intervals = (
            Interval(kind="owner", member_id=old[n], from_ms=START_MS, to_ms=at_ms),
            Interval(kind="gap", member_id=None, from_ms=at_ms, to_ms=at_ms + hole_ms),
            Interval(kind="owner", member_id=new[n], from_ms=at_ms + hole_ms, to_ms=END_MS),
        )
        histories.append(PartitionStory(topic="numbers", partition=partition, intervals=intervals))
    unowned = [
        sum(300 + 400 * n for p in range(partitions) if p % members == n) / 1000
        for n in range(members)
    ]
    return GroupStory(
        cluster_id="",
        group_id=group_id,
        findings=0,
        partitions=partitions,
        unowned_at_end=0,
        unowned_partition_s=sum(unowned),
        rebalances=members + 1,
        members_disturbed=2 * members,
        partitions_moved=partitions + 2,
        partitions_moved_least=partitions,
        protocol_mixes=mixes,
        migrations=(
            Migration(
                direction="classic->consumer",
                from_ms=switches[0],
                to_ms=switches[-1] + 1_200,
                is_complete=True,
            ),
        ),
        steps=tuple(
            MigrationStep(
                migration=1,
                number=n + 1,
                from_ms=switches[n],
                to_ms=bounds[n + 2] if n + 1 < members else switches[-1] + 1_200,
                classic_members=members - n - 1,
                consumer_members=n + 1,
                unowned_partition_s=unowned[n],
            )
            for n in range(members)
        ),
        ownership=OwnershipMap(
            from_ms=START_MS, to_ms=END_MS, is_all=True, partitions=tuple(histories)
        ),
        commits=tuple(
            CommitProgress(
                topic="numbers",
                partition=partition,
                from_ms=START_MS,
                to_ms=END_MS - partition,
                first=partition,
                last=18_000 + partition,
            )
            for partition in reversed(range(partitions))
        ),
        members=tuple(
            MemberName(member_id=member_id, instance_id=None, protocol=protocol)
            for protocol, ids in (("classic", old), ("consumer", new))
            for n, member_id in enumerate(ids)
        ),
    )


def calm_report() -> Report:
    """A report on one group with a smooth migration."""
    group = group_story()
    return Report(
        totals=Totals(
            from_ms=START_MS,
            to_ms=END_MS,
            groups=1,
            groups_on_consumer=1,
            migrations=1,
            migrations_complete=1,
            partitions=12,
            unowned_partition_s=group.unowned_partition_s,
            unowned_in_migrations_partition_s=group.unowned_partition_s,
            rebalances=4,
            members_disturbed=6,
            partitions_moved=14,
            partitions_moved_least=12,
        ),
        groups=(group,),
        step_costs=tuple(
            StepCost(
                number=step.number,
                steps=1,
                unowned_partition_s=step.unowned_partition_s,
                unowned_partition_s_most=step.unowned_partition_s,
            )
            for step in group.steps
        ),
        clients=(client_version("librdkafka", "2.16.1", on_consumer=3),),
        evidence={
            "migrations": evidence(
                "migrations",
                {"group_id": "orders", "from_ms": START_MS, "unowned_partition_s": 8.4},
            )
        },
    )


def client_version(
    name: str | None,
    version: str | None,
    *,
    on_consumer: int = 0,
    ready: int = 0,
    too_old: int = 0,
    unknown: int = 0,
    blocked: int = 0,
    blocked_by: tuple[str, ...] = (),
) -> ClientVersion:
    """A client version without members except those given."""
    return ClientVersion(
        software_name=name,
        software_version=version,
        groups=1,
        on_consumer=on_consumer,
        ready=ready,
        too_old=too_old,
        unknown=unknown,
        blocked=blocked,
        blocked_by=blocked_by,
    )


def evidence(table: str, *rows: Row, left_out: int = 0) -> Evidence:
    """Evidence with the columns of its first row."""
    columns = (
        tuple(Column(name=name, meaning=f"What {name} is.") for name in rows[0]) if rows else ()
    )
    return Evidence(table=table, columns=columns, rows=rows, left_out=left_out)


def hostile_report() -> Report:
    """A report in which every external text is an attack."""
    group = group_story(HOSTILE)
    told = group.ownership
    assert told is not None
    first = told.partitions[0].model_copy(update={"topic": HOSTILE})
    second = told.partitions[1]
    overlap = Interval(
        kind="overlap",
        member_id=HOSTILE,
        other_member_id=HOSTILE,
        from_ms=START_MS + 50_000,
        to_ms=START_MS + 50_000,
    )
    second = second.model_copy(update={"intervals": (*second.intervals, overlap)})
    told = told.model_copy(update={"partitions": (first, second, *told.partitions[2:])})
    names = (
        MemberName(member_id=HOSTILE, instance_id=HOSTILE, protocol="classic"),
        *group.members,
    )
    group = group.model_copy(
        update={
            "ownership": told,
            "members": names,
            "cluster_id": HOSTILE,
            "findings": 1,
            "finding_times_ms": (START_MS + 50_000,),
        }
    )
    row: Row = {
        "group_id": HOSTILE,
        "topic": HOSTILE,
        "partition": 3,
        "member_id": HOSTILE,
        "from_ms": START_MS + 50_000,
    }
    calm = calm_report()
    return calm.model_copy(
        update={
            "totals": calm.totals.model_copy(
                update={"overlaps": 1, "missing_events": 3, "non_monotonic": 2, "rejected_lines": 1}
            ),
            "groups": (group,),
            "clients": (
                client_version(HOSTILE, HOSTILE, ready=2, blocked=1, blocked_by=(HOSTILE,)),
                client_version(None, None, unknown=1, too_old=4),
            ),
            "evidence": {
                "overlaps": evidence("ownership", row),
                "non_monotonic": evidence("offsets", row, row),
                "missing_events": evidence("sequences", row),
                "rejected_lines": evidence(
                    "rejected_lines", {"problem": HOSTILE, "text": HOSTILE}, left_out=7
                ),
            },
        }
    )


def large_report() -> Report:
    """A report on 50 groups with ids and numbers of all sizes, over a day."""
    groups = tuple(
        group_story(
            f"team-{n}.a-rather-long-name-of-a-service.{'x' * (n % 30)}-{n}",
            members=2 + n % 12,
            partitions=6 + n % 35,
        )
        for n in range(50)
    )
    said: list[Row] = [
        {"group_id": each.group_id, "at_ms": START_MS, "stalled_ms": 1_234, "is_so": True}
        for each in groups[:2]
    ]
    rebalances: list[Row] = [
        {"group_id": each.group_id, "from_ms": START_MS, "to_ms": END_MS, "cause": "member_joined"}
        for each in groups
    ]
    calm = calm_report()
    return Report(
        totals=calm.totals.model_copy(
            update={
                "groups": 10_000,
                "groups_on_consumer": 9_321,
                "groups_mixed": 12,
                "groups_on_classic": 600,
                "unowned_partition_s": 123_456.789,
                "unowned_in_migrations_partition_s": 100_000.25,
                "rebalances": 43_210,
                "members_disturbed": 99_999,
                "partitions": 250_000,
                "partitions_moved": 1_234_567,
                "partitions_moved_least": 1_200_000,
                "differences": 2,
                "to_ms": END_MS + 82_000_000,
            }
        ),
        groups=groups,
        step_costs=tuple(
            StepCost(
                number=n,
                steps=10_000 // n,
                unowned_partition_s=50_000 / n**2,
                unowned_partition_s_most=40.0 / n,
            )
            for n in range(1, 25)
        ),
        step_costs_left_out=12,
        clients=tuple(
            client_version(
                "apache-kafka-java",
                f"{n}.{m}.0",
                on_consumer=n * m * 7,
                ready=n * 100 + m if n == 4 else 0,
                too_old=(4 - n) * 50 + m,
                unknown=m if n == 2 else 0,
                blocked=n * m,
            )
            for n in range(2, 5)
            for m in range(4)
        ),
        clients_left_out=3,
        evidence={
            "differences": evidence("differences", *said),
            "rebalances": evidence("rebalances", *rebalances, left_out=43_160),
        },
    )
