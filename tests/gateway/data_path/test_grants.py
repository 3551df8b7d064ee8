"""What is remembered of the cluster's permissions, and for how long."""

from gateway.cluster.group_permissions import Operation
from gateway.data_path.config import Limits
from gateway.data_path.grants import ASK_AGAIN_S, Grants, Permission, Resource
from gateway.quotas.quota_cache import LONG_NAME_CHARS
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal, ShareRule

LIFETIME_S = 60.0
OWNER, OTHER_OWNER = QuotaKey("10.0.0.1"), QuotaKey("10.0.0.2")
ALICE, BOB = QuotaKey("alice", is_principal=True), QuotaKey("bob", is_principal=True)
LIMITS = Limits(permission_lifetime_s=LIFETIME_S)
READ = Permission(Resource.GROUP, Operation.READ, "orders")
OTHER = Permission(Resource.GROUP, Operation.READ, "payments")


def test_a_grant_counts_for_its_lifetime() -> None:
    """From then on the cluster is asked again."""
    grants = Grants(LIMITS)
    assert not grants.has(READ, 0)
    grants.add(READ, 5, OWNER)
    assert grants.has(READ, 5 + LIFETIME_S - 1)
    assert not grants.has(READ, 5 + LIFETIME_S)
    assert not grants.has(OTHER, 5)


def test_a_refusal_ends_a_grant() -> None:
    """The refusal also ends the grant of a member who would continue while the cluster cannot be
    asked."""
    grants = Grants(LIMITS)
    grants.add(READ, 0, OWNER)
    grants.remove(READ)
    assert not grants.has(READ, 0)
    assert not grants.had([READ])


def test_an_old_grant_counts_a_little_longer_while_the_cluster_cannot_be_asked() -> None:
    """A broker that hangs must not delay each heartbeat."""
    grants = Grants(LIMITS)
    grants.add(READ, 0, OWNER)
    late_s = 10 * LIFETIME_S
    assert not grants.has(READ, late_s)
    assert grants.had([READ])
    assert not grants.had([READ, OTHER])
    grants.keep([READ], late_s, OWNER)
    assert grants.has(READ, late_s + ASK_AGAIN_S - 1)
    assert not grants.has(READ, late_s + ASK_AGAIN_S)


def test_the_oldest_grant_is_forgotten_first() -> None:
    """A client may name any number of groups."""
    grants = Grants(LIMITS, 2)
    third = READ._replace(name="third")
    for grant in (READ, OTHER, READ, third):
        grants.add(grant, 0, OWNER)
    assert [grants.has(grant, 0) for grant in (READ, OTHER, third)] == [True, False, True]


def test_one_address_leaves_the_grants_of_others() -> None:
    """All clients without credentials are one principal to the cluster."""
    grants = Grants(LIMITS, 4, ShareRule())
    grants.add(READ, 0, OTHER_OWNER)
    for number in range(9):
        grants.add(READ._replace(name=f"invented-{number}"), 0, OWNER)
    assert grants.has(READ, 0)
    assert [grants.has(READ._replace(name=f"invented-{number}"), 0) for number in (6, 7, 8)] == [
        *(False, True, True)
    ]


def test_connections_of_one_principal_share_its_part() -> None:
    """Each new grant costs the connection its own oldest one, and others nothing."""
    total = SharedTotal(8)
    first, second, other = (Grants(LIMITS, total=total) for _ in range(3))
    first.add(READ, 0, ALICE)
    for number in range(10):
        second.add(_grant(f"g-{number}"), 0, ALICE)
    remembered = [number for number in range(10) if second.has(_grant(f"g-{number}"), 1)]
    assert (first.has(READ, 1), remembered) == (True, [7, 8, 9])
    for number in range(2):
        other.add(_grant(f"g-{number}"), 0, BOB)
    assert all(other.has(_grant(f"g-{number}"), 1) for number in range(2))


def test_a_connection_without_room_asks_each_time() -> None:
    """This lasts until another connection of its principal has ended."""
    total = SharedTotal(2)
    first, second = Grants(LIMITS, total=total), Grants(LIMITS, total=total)
    first.add(READ, 0, ALICE)
    second.add(OTHER, 0, ALICE)
    assert not second.has(OTHER, 1)
    first.close()
    second.add(OTHER, 0, ALICE)
    assert second.has(OTHER, 1)


def test_a_grant_gives_its_room_back_once() -> None:
    """Refused, renewed, and at the end of the connection."""
    total = SharedTotal(4)
    grants = Grants(LIMITS, total=total)
    grants.add(READ, 0, ALICE)
    grants.add(READ, 1, ALICE)
    grants.add(OTHER, 1, ALICE)
    assert not total.has_room(ALICE, 1)
    grants.remove(READ)
    grants.remove(READ)
    assert (total.has_room(ALICE, 1), total.has_room(ALICE, 2)) == (True, False)
    grants.close()
    grants.close()
    assert (total.has_room(ALICE, 2), total.has_room(ALICE, 3)) == (True, False)


def test_a_long_name_takes_more_room() -> None:
    """Names of 32 KiB would fill the memory otherwise: here five short ones make way."""
    grants = Grants(LIMITS, 6)
    for number in range(6):
        grants.add(_grant(f"g-{number}"), 0, ALICE)
    grants.add(long := _grant("x" * 4 * LONG_NAME_CHARS), 0, ALICE)
    remembered = [number for number in range(6) if grants.has(_grant(f"g-{number}"), 1)]
    assert (grants.has(long, 1), remembered) == (True, [5])


def _grant(name: str) -> Permission:
    return Permission(Resource.GROUP, Operation.READ, name)
