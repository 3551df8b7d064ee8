"""Who a connection or a group counts towards."""

from gateway.quotas.quota_key import QuotaKey


def test_a_user_with_the_name_of_an_address_is_another_owner() -> None:
    """Neither can use up the other's limit."""
    address, user = QuotaKey("10.0.0.1"), QuotaKey("10.0.0.1", is_principal=True)
    assert address != user
    assert (f"{address}", f"{user}") == ("address 10.0.0.1", "user 10.0.0.1")
