"""What the resolution of regular expressions waits for."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.data_path.config import Limits
from gateway.groups import regex_permissions as module
from gateway.groups.regex_permissions import ASK_AGAIN_S, RegexPermissions
from gateway.quotas.quota_cache import LONG_NAME_CHARS

LIFETIME_S = 60.0
LIMITS = Limits(permission_lifetime_s=LIFETIME_S)
G = "orders"


async def test_a_resolution_waits_until_a_heartbeat_has_asked(nursery: trio.Nursery) -> None:
    """Other groups have their own members."""
    permissions = RegexPermissions(LIMITS)
    got: list[frozenset[str]] = []

    async def resolve() -> None:
        got.append(await permissions.find_describable(G, {"foo", "bar"}))

    assert G not in permissions.waiting
    nursery.start_soon(resolve)
    await wait_all_tasks_blocked()
    assert G in permissions.waiting
    assert "other" not in permissions.waiting
    assert permissions.list_topics_to_ask(G) == {"foo", "bar"}
    permissions.record("other", {"foo", "bar"}, ())
    await wait_all_tasks_blocked()
    assert got == []
    permissions.record(G, {"foo", "bar"}, {"bar"})
    await wait_all_tasks_blocked()
    assert got == [frozenset({"foo"})]
    assert G not in permissions.waiting


async def test_an_answer_counts_for_its_lifetime(autojump_clock: MockClock) -> None:
    """Refusals too: the resolution is repeated anyway."""
    permissions = RegexPermissions(LIMITS)
    permissions.record(G, {"foo", "bar"}, {"bar"})
    assert await permissions.find_describable(G, {"foo", "bar"}) == {"foo"}
    await trio.sleep(LIFETIME_S)
    assert permissions.unknown(G, {"foo", "bar"}) == {"foo", "bar"}


async def test_the_groups_in_memory_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster is asked again for the oldest ones."""
    monkeypatch.setattr(module, "GROUPS_MAX", 2)
    permissions = RegexPermissions(LIMITS)
    for group_id in "abc":
        permissions.record(group_id, {"foo"}, ())
    known = [group_id for group_id in "cba" if not permissions.unknown(group_id, {"foo"})]
    assert known == ["c", "b"]


async def test_a_group_with_a_long_name_counts_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names have up to 32 KiB."""
    monkeypatch.setattr(module, "GROUPS_MAX", 5)
    permissions = RegexPermissions(LIMITS)
    long = "x" * 3 * LONG_NAME_CHARS
    for group_id in ("a", long, "b"):
        permissions.record(group_id, {"foo"}, ())
    known = [regex for regex in ("b", long, "a") if not permissions.unknown(regex, {"foo"})]
    assert known == ["b", long]
    for group_id in "cde":
        permissions.record(group_id, {"foo"}, ())
    assert not permissions.unknown("b", {"foo"})


async def test_the_topics_of_all_groups_have_a_bound(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The oldest group is forgotten unless a resolution waits for it, and topics that were not
    asked about recently do not count."""
    monkeypatch.setattr(module, "TOPICS_MAX", 4)
    permissions = RegexPermissions(LIMITS)
    permissions.record("waiting", {"foo"}, ())
    nursery.start_soon(permissions.find_describable, "waiting", {"bar"})
    await wait_all_tasks_blocked()
    permissions.record("old", {"foo"}, ())
    permissions.record(G, {"foo", "bar"}, ())
    assert not permissions.unknown("old", {"foo"})
    permissions.record(G, {"baz"}, ())
    assert permissions.unknown("old", {"foo"})
    assert not permissions.unknown("waiting", {"foo"})
    await trio.sleep(LIFETIME_S)
    permissions.record(G, {"foo"}, ())
    permissions.record("new", {"foo", "bar"}, ())
    assert not permissions.unknown(G, {"foo"})
    nursery.cancel_scope.cancel()


async def test_one_heartbeat_at_a_time_asks(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A broker that does not answer delays no other heartbeat for a while."""
    permissions = RegexPermissions(LIMITS)
    nursery.start_soon(permissions.find_describable, G, {"foo"})
    await wait_all_tasks_blocked()
    assert permissions.list_topics_to_ask(G) == {"foo"}
    assert permissions.list_topics_to_ask(G) == frozenset()
    await trio.sleep(ASK_AGAIN_S)
    assert permissions.list_topics_to_ask(G) == {"foo"}
    nursery.cancel_scope.cancel()
