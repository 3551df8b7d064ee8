"""Which assignor a group uses, and which member runs one of its own (rules 3.6, 9.7)."""

from dataclasses import replace

import pytest

from coordinator.consumer import selection
from coordinator.consumer.selection import preferred_assignor
from coordinator.interface.config import GroupConfig
from tests.coordinator.conftest import MakeGroup
from tests.support.client_assignors import CLIENT_SIDE, weighted_assignor
from tests.support.group_script import GroupScript


def test_the_members_vote_for_the_assignor(group: GroupScript) -> None:
    """Members without a preference do not vote. Without votes the first configured assignor is
    used."""
    config = GroupConfig(consumer_assignors=("range", "uniform"))
    group.native("n1")
    assert preferred_assignor(group.consumer, config) == "range"
    group.native("n2", assignor="uniform")
    assert preferred_assignor(group.consumer, config) == "uniform"
    group.native("n3", assignor="range")
    group.native("n4", assignor="range")
    assert preferred_assignor(group.consumer, group.config) == "range"
    group.wait(1_000)
    group.native("n4", 2)
    assert group.consumer.assignor == "range"


def test_a_group_with_too_much_metadata_uses_a_server_side_assignor(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chosen member gets it in one answer. The group is not stuck."""
    monkeypatch.setattr(selection, "METADATA_BYTES_MAX", 10)
    group = make_group(config=CLIENT_SIDE)
    assert group.native(
        "n1", client_assignors=[weighted_assignor(metadata=bytes(10))]
    ).should_compute
    group.native("n2", client_assignors=[weighted_assignor(metadata=bytes(1))])
    assert group.consumer.assignor == "uniform"
    group.native("n2", -1)
    assert group.native("n1", 1).member_epoch == 3
    assert group.native("n1", 3).should_compute


def test_a_group_with_too_many_lists_of_assignors_uses_a_server_side_one(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each selection looks at all of them: a thousand took a minute. Members that list the same
    count once."""
    monkeypatch.setattr(selection, "OFFERS_MAX", 2)
    group = make_group(config=CLIENT_SIDE)
    for member_id, version in (("n1", 1), ("n2", 2), ("n3", 2)):
        group.native(member_id, client_assignors=[weighted_assignor(version=version)])
    assert group.view().assignor == "weighted"
    assert group.native("n4", client_assignors=[weighted_assignor(7, 7)]).error == 112
    assert group.native("n5", client_assignors=[weighted_assignor(version=3)]).error == 0
    assert group.consumer.assignor == "uniform"
    assert group.native("n6", client_assignors=[weighted_assignor(7, 7)]).error == 0


def test_the_only_member_that_can_compute_is_chosen_again(make_group: MakeGroup) -> None:
    """This holds even if one that failed before it can no longer compute."""
    group = make_group(config=CLIENT_SIDE)
    for member_id in ("n1", "n2"):
        group.native(member_id, client_assignors=[weighted_assignor()], rebalance_timeout_ms=5_000)
    group.wait(5_000)
    group.native("n1", 1, client_assignors=[weighted_assignor(0, 2)])
    assert group.native("n2", 1).should_compute
    group.wait(5_000)
    assert group.native("n2", 1).should_compute
    assert group.consumer.tried == ("n1", "n2")


def test_a_member_that_has_gone_is_no_member_that_failed(make_group: MakeGroup) -> None:
    """The memory of a group would grow with every client that comes, fails and goes; also with one
    that goes first, and whose time ends then."""
    group = make_group(config=CLIENT_SIDE)
    group.native("n1", client_assignors=[weighted_assignor()], rebalance_timeout_ms=5_000)
    group.wait(5_000)
    for member_id in ("n2", "n3"):
        joined = group.native(
            member_id, client_assignors=[weighted_assignor()], rebalance_timeout_ms=5_000
        )
        assert joined.should_compute
        group.wait(5_000)
        if member_id == "n2":
            group.native("n2", joined.member_epoch)
            assert group.consumer.tried == ("n1", "n2")
        group.native(member_id, -1)
        assert group.consumer.tried == ("n1",)


def test_client_side_assignors_are_ignored_unless_they_are_switched_on(group: GroupScript) -> None:
    """Such clients are served as others are."""
    reply = group.native("n1", client_assignors=[weighted_assignor(5, 1), weighted_assignor(5, 1)])
    assert (reply.error, reply.should_compute) == (0, False)
    assert group.consumer.assignor == "uniform"
    assert group.consumer.members["n1"].client_assignors == ()


def test_a_group_continues_with_a_server_side_assignor_when_they_are_switched_off(
    make_group: MakeGroup,
) -> None:
    """A restart with other settings switches them off. What its members said is stored."""
    group = make_group(config=CLIENT_SIDE)
    group.native("n1", client_assignors=[weighted_assignor()])
    group.config = replace(CLIENT_SIDE, client_side_assignors=False)
    group.restart()
    reply = group.native("n1", 1)
    assert (reply.error, reply.should_compute) == (0, False)
    assert group.consumer.assignor == "uniform"
    assert len(reply.assignment or ()) == 3


def test_one_kind_of_assignor_replaces_the_other(make_group: MakeGroup) -> None:
    """A member may change its mind."""
    group = make_group(config=CLIENT_SIDE)
    group.native("n1", assignor="range")
    group.native("n1", 2, client_assignors=[weighted_assignor()])
    member = group.consumer.members["n1"]
    assert (member.server_assignor, len(member.client_assignors)) == (None, 1)
    group.native("n1", 2, assignor="range")
    member = group.consumer.members["n1"]
    assert (member.server_assignor, len(member.client_assignors)) == ("range", 0)
    group.native("n1", group.consumer.epoch, client_assignors=[])
    assert group.consumer.members["n1"].server_assignor == "range"


def test_a_group_of_members_that_are_away_waits_for_them(make_group: MakeGroup) -> None:
    """Nobody is left who can run the assignor, until the static member returns or its session
    ends. Classic members keep what they have, and no timer runs in a loop."""
    group = make_group(config=CLIENT_SIDE)
    group.native("n1", instance_id="i", client_assignors=[weighted_assignor(-1, 3)])
    epoch = group.prepare("n1", 1).group_epoch
    group.install("n1", 1, epoch, {"n1": {"foo": (0, 1, 2)}})
    group.native("n1", 1)
    group.native("n1", -2, instance_id="i")
    group.join(group.take_id(protocol="weighted"), protocol="weighted")
    group.wait(5_000)
    assert group.consumer.assignment_epoch < group.consumer.epoch
    returned = group.native("n3", instance_id="i", client_assignors=[weighted_assignor(-1, 3)])
    assert returned.should_compute
