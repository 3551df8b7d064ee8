"""The input of an assignor."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.assignors import ASSIGNORS
from coordinator.assignors import spec_of as rebuilt
from coordinator.assignors.group_spec import Subscriber
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.volatile_records import Computation
from kafka_codecs.error_codes import ErrorCode
from tests.support.assignor_strategies import Case, cases, spec_of
from tests.support.group_values import topic_id

ROOT = Path(__file__).parents[3]
K = TypeVar("K")
V = TypeVar("V")
FOO, BAR = topic_id("foo"), topic_id("bar")


def subscribed_to(*topic_ids_: object) -> Subscriber:
    return Subscriber(instance_id=None, topic_ids=frozenset(topic_ids_))  # type: ignore[arg-type]


def test_every_assignor_that_is_configured_exists() -> None:
    """Kafka's names (rule 1.5)."""
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
    """A group is homogeneous if all members subscribe to every subscribed topic."""
    spec = spec_of({f"m{n}": member for n, member in enumerate(members)}, {FOO: 1, BAR: 1}, {})
    assert spec.is_homogeneous is is_homogeneous


def test_an_unknown_topic_is_an_error() -> None:
    """The assignor does not guess (rule 9.3)."""
    spec = spec_of({"a": subscribed_to(FOO)}, {FOO: 3}, {})
    assert spec.partition_count(FOO) == 3
    with pytest.raises(GroupError, match="does not know the topic") as refusal:
        spec.partition_count(BAR)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


@given(case=cases())
def test_an_assignor_elsewhere_sees_the_same_group(case: Case) -> None:
    """What is sent to it has the plain tables only; the indexes follow from them."""
    spec = case.spec
    computation = Computation(
        epoch=1,
        assignor="plug-in",
        members=case.members,
        partition_counts=spec.partition_counts,
        target=spec.target,
    )
    assert rebuilt(pickle.loads(pickle.dumps(computation))) == spec
    spared = frozenset(list(case.members)[:1])
    split = rebuilt(replace(computation, spared=spared))
    assert set(split.spared) == spared
    assert set(split.loads) == case.members.keys() - spared


def backwards(rows: Mapping[K, V]) -> dict[K, V]:
    return {key: rows[key] for key in reversed(list(rows))}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(is_homogeneous=st.booleans(), data=st.data())
def test_the_order_of_the_input_does_not_matter(
    name: str, is_homogeneous: bool, data: st.DataObject
) -> None:
    """Members, topics and old targets may come in any order."""
    case = data.draw(cases(is_homogeneous=is_homogeneous))
    again = Case(backwards(case.members), case.counts, backwards(case.old)).spec
    again = replace(
        again,
        subscriber_counts=backwards(again.subscriber_counts),
        partition_counts=backwards(again.partition_counts),
    )
    assert ASSIGNORS[name](again) == ASSIGNORS[name](case.spec)


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


def test_the_hash_seed_does_not_matter() -> None:
    """Each process iterates over sets in another order, but the answers are the same."""
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
