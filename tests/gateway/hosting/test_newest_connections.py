"""The newest connection of each member."""

from gateway.hosting.newest_connections import NewestConnections


def test_a_later_connection_is_newer() -> None:
    newest = NewestConnections()
    newest.record(["n"], 2)
    newest.record(["n"], 1)
    assert newest.has_newer(["m", "n"], 1)
    assert not newest.has_newer(["n"], 2)
    assert not newest.has_newer(["m"], 1)


def test_a_connection_that_was_open_already_may_be_late() -> None:
    """The client has turned back to the older one of two, and a request waits on the other."""
    newest = NewestConnections()
    newest.record(["n"], 1, newest=3)
    assert newest.has_newer(["n"], 2)
    newest.record(["n"], 2, newest=4)
    assert not newest.has_newer(["n"], 1)
    assert not newest.has_newer(["n"], 4)


def test_what_was_recorded_while_the_cluster_had_the_group_counts_as_well() -> None:
    earlier, newest = NewestConnections(), NewestConnections()
    earlier.record(["m"], 3)
    newest.record(["n"], 2)
    earlier.record(["n"], 1)
    newest.take_over(earlier)
    assert newest.has_newer(["m"], 2)
    assert newest.has_newer(["n"], 1), "what is known of it already is later"


def test_former_members_are_forgotten() -> None:
    """Memory follows the members that are there."""
    newest = NewestConnections()
    for number in range(8):
        members = ["n", f"m{number}"]
        assert newest.record(members, number)
        newest.forget_others(members)
    assert newest.has_newer(["n", "m7"], 6)
    assert not newest.has_newer(["m1", "m2"], 0)
