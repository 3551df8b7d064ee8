"""What is remembered of the cluster's permissions, and for how long."""

from gateway.data_path.config import Limits
from gateway.data_path.grants import ASK_AGAIN_S, Grant, Grants, Operation, Resource
from gateway.hosting.owner import Owner
from gateway.hosting.remembered import NameQuota

LIFETIME_S = 60.0
OWNER, OTHER_OWNER = Owner("10.0.0.1"), Owner("10.0.0.2")
LIMITS = Limits(permission_lifetime_s=LIFETIME_S)
READ = Grant(Resource.GROUP, Operation.READ, "orders")
OTHER = Grant(Resource.GROUP, Operation.READ, "payments")


def test_a_grant_counts_for_its_lifetime() -> None:
    """From then on the cluster is asked again."""
    grants = Grants(LIMITS)
    assert not grants.has(READ, 0)
    grants.add(READ, 5, OWNER)
    assert grants.has(READ, 5 + LIFETIME_S - 1)
    assert not grants.has(READ, 5 + LIFETIME_S)
    assert not grants.has(OTHER, 5)


def test_a_refusal_ends_a_grant() -> None:
    """Also for a member who would go on while the cluster cannot be asked."""
    grants = Grants(LIMITS)
    grants.add(READ, 0, OWNER)
    grants.remove(READ)
    assert not grants.has(READ, 0)
    assert not grants.had([READ])


def test_an_old_grant_counts_a_little_longer_while_the_cluster_cannot_be_asked() -> None:
    """So that not each heartbeat waits for a broker that hangs."""
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
    assert [grants.has(each, 0) for each in (READ, OTHER, third)] == [True, False, True]


def test_one_address_leaves_the_grants_of_others() -> None:
    """All clients without credentials are one principal to the cluster."""
    grants = Grants(LIMITS, 4, NameQuota())
    grants.add(READ, 0, OTHER_OWNER)
    for number in range(9):
        grants.add(READ._replace(name=f"invented-{number}"), 0, OWNER)
    assert grants.has(READ, 0)
    assert [grants.has(READ._replace(name=f"invented-{each}"), 0) for each in (6, 7, 8)] == [
        *(False, True, True)
    ]
