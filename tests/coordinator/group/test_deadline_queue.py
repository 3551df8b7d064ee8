"""The queue finds the next deadline without a scan."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.deadline_queue import DeadlineQueue
from coordinator.interface.volatile_records import DeadlineKey, DeadlineKind, DeadlineSet

KEYS = [DeadlineKey(DeadlineKind.SESSION, owner) for owner in "abc"]


CHANGES = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 9)))


def change(
    queue: DeadlineQueue, running: dict[DeadlineKey, int], key: DeadlineKey, at_ms: int | None
) -> None:
    """Set, move or clear a deadline. The queue is not notified of a cleared one."""
    if at_ms is None:
        running.pop(key, None)
    else:
        running[key] = at_ms
        queue.record(DeadlineSet(key, at_ms), running)


@given(CHANGES)
def test_the_next_deadline_is_the_earliest(changes: list[tuple[DeadlineKey, int | None]]) -> None:
    """This holds after deadlines were set, moved or cleared in any order."""
    running: dict[DeadlineKey, int] = {}
    queue = DeadlineQueue(running)
    for key, at_ms in changes:
        change(queue, running, key, at_ms)
        assert queue.next_ms(running) == min(running.values(), default=None)


@given(CHANGES)
def test_due_deadlines_are_in_order(changes: list[tuple[DeadlineKey, int | None]]) -> None:
    """Each due deadline is listed once, earliest first. The query changes nothing."""
    running: dict[DeadlineKey, int] = {}
    queue = DeadlineQueue(running)
    for key, at_ms in changes:
        change(queue, running, key, at_ms)
    length = len(queue)
    for now_ms in range(-1, 10):
        expected = sorted((at_ms, key) for key, at_ms in running.items() if at_ms <= now_ms)
        assert queue.due(running, now_ms) == [key for _, key in expected]
    assert len(queue) == length


def test_pending_deadlines_are_not_visited() -> None:
    """Two of ten thousand deadlines are due."""
    asked = []

    class Watched(dict[DeadlineKey, int]):
        def get(self, key: DeadlineKey, default: int | None = None) -> int | None:  # type: ignore[override]
            asked.append(key)
            return super().get(key, default)

    running = {DeadlineKey(DeadlineKind.SESSION, str(n)): n for n in range(10_000)}
    queue = DeadlineQueue(running)
    assert [key.owner for key in queue.due(Watched(running), 1)] == ["0", "1"]
    assert len(asked) == 2


def test_a_new_queue_has_the_existing_deadlines() -> None:
    """The queue is an index that can be rebuilt at any time."""
    assert DeadlineQueue({KEYS[0]: 7, KEYS[1]: 5}).next_ms({KEYS[0]: 7, KEYS[1]: 5}) == 5


def test_the_queue_does_not_grow_with_every_heartbeat() -> None:
    """Each restart of a session leaves a stale entry."""
    running = {KEYS[0]: 0}
    queue = DeadlineQueue({})
    for at_ms in range(10_000):
        running[KEYS[0]] = 1_000_000 + at_ms
        running[KEYS[1]] = 1_000
        queue.record(DeadlineSet(KEYS[0], 1_000_000 + at_ms), running)
        queue.record(DeadlineSet(KEYS[1], 1_000), running)
    assert len(queue) < 200
