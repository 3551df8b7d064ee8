"""What a native member's statement of its owned partitions proves (rule 3.7, DEV D90)."""

import pytest

from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_native
from tests.support.group_script import GroupScript

ONE, TWO = {"foo": (0,)}, {"foo": (0, 1)}


@pytest.fixture
def moving(group: GroupScript) -> GroupScript:
    """A group in which n1 has to give up foo-1, which is n2's next."""
    group.given_consumer_group(
        given_native("n1", assigned=TWO, target=ONE),
        given_native("n2", target={"foo": (1,)}),
        epoch=11,
    )
    return group


def is_free(group: GroupScript) -> bool:
    """Whether n2 gets the partition that n1 has to give up."""
    epoch = group.current("n2").member_epoch
    assert group.native("n2", epoch).error == ErrorCode.NONE
    return group.granted_partitions("n2") == {"foo": (1,)}


def test_a_statement_releases_nothing_that_its_sender_was_not_told_to_give_up(
    moving: GroupScript,
) -> None:
    """The client has been granted the partition, and may not have taken it yet: librdkafka first
    asks for the names of topics."""
    reply = moving.native("n1", 10, owned=ONE)
    assert (reply.member_epoch, moving.names_of(reply.assignment)) == (10, ONE)
    assert not is_free(moving)
    assert moving.native("n1", 10, owned=ONE).member_epoch == 11
    assert is_free(moving)


def test_a_member_that_sees_no_change_must_state_again_what_it_owns(moving: GroupScript) -> None:
    """The member owns exactly what it was told, so it would acknowledge nothing."""
    moving.native("n1", 10, owned=ONE)
    assert moving.native("n1", 10).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert moving.native("n1", 10, owned=ONE).member_epoch == 11


def test_a_statement_that_was_sent_before_the_last_answer_proves_nothing(
    moving: GroupScript,
) -> None:
    """A client that gave its heartbeat up sends the next one before it has the answer."""
    moving.native("n1", 10, connection=1)
    moving.native("n1", 10, owned=ONE, connection=1, follows_answers=False)
    assert not is_free(moving)
    moving.native("n1", 10, owned=ONE, connection=1)
    assert is_free(moving)


@pytest.mark.parametrize("second", [2, 3])
def test_on_a_new_connection_the_second_statement_counts(moving: GroupScript, second: int) -> None:
    """The answers on the old one may have been lost. Some clients connect again after an error."""
    moving.native("n1", 10, connection=1)
    moving.native("n1", 10, owned=ONE, connection=2)
    assert not is_free(moving)
    assert moving.native("n1", 10, owned=ONE, connection=second).member_epoch == 11
    assert is_free(moving)


def test_a_late_statement_on_an_older_connection_is_not_the_second(moving: GroupScript) -> None:
    """The gateway continues reading a connection that its client has given up."""
    moving.native("n1", 10, connection=2)
    moving.native("n1", 10, owned=ONE, connection=1, follows_answers=False)
    moving.native("n1", 10, owned=ONE, connection=1, follows_answers=False)
    assert not is_free(moving)


def test_late_statements_on_several_older_connections_prove_nothing(moving: GroupScript) -> None:
    """Their client has moved on to a newer connection, so the second one is no answer to the first.
    On the newest one, the client may not have heard the answers to the late ones."""
    moving.native("n1", 10, connection=4)
    moving.native("n1", 10, owned=ONE, connection=2)
    moving.native("n1", 10, owned=ONE, connection=3)
    moving.native("n1", 10, owned=ONE, connection=4)
    assert not is_free(moving)
    moving.native("n1", 10, owned=ONE, connection=4)
    assert is_free(moving)


def test_late_statements_on_connections_newer_than_that_of_the_grant_prove_nothing(
    moving: GroupScript,
) -> None:
    """Their client has gone back to an older connection, and got the partition there. Only a
    connection that was opened after the first of them had arrived carries no late one."""
    moving.native("n1", 10, connection=1, newest_connection=3)
    moving.native("n1", 10, owned=ONE, connection=2)
    moving.native("n1", 10, owned=ONE, connection=3)
    assert not is_free(moving)
    moving.native("n1", 10, owned=ONE, connection=4)
    assert is_free(moving)


def test_after_a_reload_late_statements_prove_nothing_either(moving: GroupScript) -> None:
    """The group is read again while its clients keep their connections."""
    moving.native("n1", 10, connection=1, newest_connection=3)
    moving.restart()
    moving.native("n1", 10, owned=ONE, connection=2)
    moving.native("n1", 10, owned=ONE, connection=3)
    assert not is_free(moving)


def test_a_client_may_come_back_to_an_older_connection(moving: GroupScript) -> None:
    """The coordinator has moved to another broker and back, and the first connection is still open.
    There the second statement counts, as on a new one."""
    moving.native("n1", 10, connection=5)
    moving.native("n1", 10, connection=7)
    moving.native("n1", 10, owned=ONE, connection=5)
    assert not is_free(moving)
    moving.native("n1", 10, owned=ONE, connection=5)
    assert is_free(moving)


def test_a_statement_that_counts_still_proves_nothing_about_a_new_grant(
    moving: GroupScript,
) -> None:
    """A member whose last statement was doubted hears of the grant first."""
    moving.native("n2", 10, connection=5)
    moving.native("n1", 10, connection=1)
    moving.native("n1", 10, owned=ONE, connection=1)
    moving.native("n2", 11, owned={}, connection=6)
    moving.native("n3")
    epoch = moving.current("n2").member_epoch
    moving.native("n2", epoch, owned={}, connection=7)
    assert moving.current("n2").held_partitions


def test_a_later_member_epoch_proves_that_the_answers_before_have_arrived(
    group: GroupScript,
) -> None:
    """Whichever connection it comes on."""
    group.given_consumer_group(
        given_native("n1", assigned=TWO), given_native("n2", target={"foo": (2,)}), epoch=11
    )
    group.native("n1", 10, connection=1)
    group.native("n1", 11, owned=TWO, connection=2)
    assert group.native("n1", 11, connection=2).error == ErrorCode.NONE


def test_after_a_restart_the_second_statement_counts(moving: GroupScript) -> None:
    """The new process does not know what the earlier one has sent, and lists the assignment
    again."""
    moving.native("n1", 10, connection=1)
    moving.restart()
    moving.native("n1", 10, owned=ONE, connection=1)
    assert not is_free(moving)
    moving.native("n1", 10, owned=ONE, connection=1)
    moving.native("n2", 10, owned={})
    assert moving.current("n1").pending_revocation == {}


def test_a_member_that_replaced_another_owns_nothing_yet(group: GroupScript) -> None:
    """Its first statement is that of a new process."""
    group.given_consumer_group(
        given_native("n1", assigned=TWO, target=ONE, instance_id="i1"),
        given_native("n2", target={"foo": (1,)}),
        epoch=11,
    )
    group.native("n1", -2, instance_id="i1")
    group.native("n3", instance_id="i1", connection=9)
    assert is_free(group)
