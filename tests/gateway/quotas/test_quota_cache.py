"""Tables of names with a quota for each owner."""

from gateway.quotas.quota_cache import LONG_NAME_CHARS, QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule

ALICE, MALLORY = QuotaKey("alice", is_principal=True), QuotaKey("mallory", is_principal=True)
SOMEWHERE = QuotaKey("10.0.0.1")


def quota_cache(entries_max: int = 10, quota: ShareRule | None = None) -> QuotaCache[str, int]:
    """A table."""
    return QuotaCache(entries_max, quota or ShareRule())


def test_who_invents_names_forgets_its_own() -> None:
    """By default this begins at half of the table. The names of others stay."""
    table = quota_cache()
    for name in ("a", "b", "c"):
        table.put(name, 1, ALICE)
    for number in range(1_000):
        table.put(f"invented-{number}", number, MALLORY)
    assert list(table) == ["a", "b", "c", *(f"invented-{number}" for number in range(995, 1_000))]


def test_the_quota_is_a_setting_for_users_and_addresses() -> None:
    """The quota may change while the table is in use."""
    quota = ShareRule(per_address=1, per_principal=2)
    table = quota_cache(quota=quota)
    for number in range(5):
        table.put(f"user-{number}", number, MALLORY)
        table.put(f"address-{number}", number, SOMEWHERE)
    assert list(table) == ["user-3", "user-4", "address-4"]
    quota.per_principal = 3
    table.put("user-5", 5, MALLORY)
    assert list(table) == ["user-3", "user-4", "address-4", "user-5"]


def test_a_name_stays_with_the_owner_that_named_it_first() -> None:
    """A client must not be able to push out another client's entry by naming it again."""
    table = quota_cache()
    table.put("a", 1, ALICE)
    table.put("a", 2, MALLORY)
    for number in range(100):
        table.put(f"invented-{number}", number, MALLORY)
    assert table.get("a") == 2


def test_a_full_table_forgets_the_oldest() -> None:
    """The oldest entry may be of any owner; entries that the gateway itself has named have none."""
    table = quota_cache(2)
    table.put("a", 1, None)
    table.put("b", 2, ALICE)
    table.put("a", 3, None)
    assert table.put("c", 4, MALLORY) == [2]
    assert (list(table), len(table), "b" in table) == (["a", "c"], 2, False)


def test_a_forgotten_name_no_longer_counts() -> None:
    """The name does not count for its owner, either; forgetting it twice is harmless."""
    table = quota_cache(4)
    table.put("a", 1, ALICE)
    assert (table.pop("a"), table.pop("a")) == ((1,), ())
    table.put("b", 2, ALICE)
    table.put("c", 3, ALICE)
    assert list(table) == ["b", "c"]


def test_a_long_name_counts_again_for_each_thousand_characters() -> None:
    """Towards its owner and in total, so that a table of names has a size in bytes, too."""
    table = quota_cache(10)
    long = "x" * 3 * LONG_NAME_CHARS
    for name in ("a", "b", "c"):
        table.put(name, 1, ALICE)
    table.put("mine", 2, MALLORY)
    assert table.put(long, 3, MALLORY) == []
    assert (list(table), table.weight) == (["a", "b", "c", "mine", long], 8)
    assert table.put("y" * 2 * LONG_NAME_CHARS, 4, MALLORY) == [2, 3]
    table.put("z" * 6 * LONG_NAME_CHARS, 5, None)
    assert (len(table), table.weight) == (2, 10)


def test_one_name_is_remembered_however_long_it_is() -> None:
    """An owner with a quota of one still has it."""
    table = quota_cache(quota=ShareRule(per_address=1))
    long = "x" * 20 * LONG_NAME_CHARS
    table.put("a", 1, SOMEWHERE)
    table.put(long, 2, SOMEWHERE)
    assert list(table) == [long]
    assert table.pop(long) == (2,)
    assert table.weight == 0
