"""What an assignor is told."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.assignors import ASSIGNORS
from coordinator.assignors.group_spec import Subscriber
from coordinator.config import GroupConfig
from coordinator.errors import ErrorCode, GroupError
from tests.support.assignor_strategies import Case, cases, spec_of
from tests.support.group_values import topic_id

ROOT = Path(__file__).parents[3]
FOO, BAR = topic_id("foo"), topic_id("bar")


def subscribed_to(*topic_ids_: object) -> Subscriber:
    return Subscriber(instance_id=None, topic_ids=frozenset(topic_ids_))  # type: ignore[arg-type]


def test_every_assignor_that_is_configured_exists() -> None:
    """Kafka's names (spec 1.5)."""
    assert tuple(ASSIGNORS) == GroupConfig().consumer_assignors


@pytest.mark.parametrize(
    ("members", "is_homogeneous"),
    [
        ([], True),
        ([subscribed_to()], True),
        ([subscribed_to(FOO, BAR), subscribed_to(BAR, FOO)], True),
        ([subscribed_to(FOO), subscribed_to(FOO, BAR)], False),
        ([subscribed_to(FOO), subscribed_to()], False),
    ],
)
def test_homogeneous(members: list[Subscriber], is_homogeneous: bool) -> None:
    """Every subscribed topic is subscribed by all."""
    spec = spec_of({f"m{n}": member for n, member in enumerate(members)}, {FOO: 1, BAR: 1}, {})
    assert spec.is_homogeneous is is_homogeneous


def test_a_topic_that_is_not_there() -> None:
    """An error, never a guess (spec section 9)."""
    spec = spec_of({"a": subscribed_to(FOO)}, {FOO: 3}, {})
    assert spec.partition_count(FOO) == 3
    with pytest.raises(GroupError, match="does not know the topic") as refusal:
        spec.partition_count(BAR)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("name", ASSIGNORS)
@given(case=cases(), dice=st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(name: str, case: Case, dice: Random) -> None:
    """Members, topics and old targets in any order."""

    def shuffled(rows: dict[str, object]) -> dict[str, object]:
        return {key: rows[key] for key in dice.sample(sorted(rows), len(rows))}

    again = Case(
        shuffled(dict(case.members)),  # type: ignore[arg-type]
        {id_: case.counts[id_] for id_ in dice.sample(sorted(case.counts), len(case.counts))},
        shuffled(dict(case.old)),  # type: ignore[arg-type]
    )
    assert again.assigned_by(ASSIGNORS[name]) == case.assigned_by(ASSIGNORS[name])


ASSIGN_ALL = """
import json
from coordinator.assignors import ASSIGNORS
from coordinator.assignors.group_spec import Subscriber
from tests.support.assignor_strategies import new_target, spec_of
from tests.support.group_values import topic_id

topics = {topic_id(name): count for name, count in (("foo", 7), ("bar", 5), ("zar", 3))}
answers = []
for how_many in (1, 2, 3):
    members = {
        f"m{n}": Subscriber(
            instance_id=None,
            topic_ids=frozenset(list(topics)[: how_many if n % 2 else 3]),
        )
        for n in range(5)
    }
    for assignor in ASSIGNORS.values():
        target = {}
        for count in (2, 5, 3):
            part = {id_: members[id_] for id_ in list(members)[:count]}
            old = {id_: mine for id_, mine in target.items() if id_ in part}
            target = new_target(assignor, spec_of(part, topics, old))
            answers.append({id_: sorted(map(str, mine)) for id_, mine in target.items()})
print(json.dumps(answers))
"""


def test_the_seed_of_the_hashes_does_not_matter() -> None:
    """Sets are walked in another order in each process; the answers are the same."""
    answers = [
        subprocess.run(
            [sys.executable, "-c", ASSIGN_ALL],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "codecs")]),
            },
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    assert len(json.loads(answers[0])) == 18
    assert len(set(answers)) == 1
