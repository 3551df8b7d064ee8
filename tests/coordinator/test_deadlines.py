"""The next deadline, found without looking at all of them."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.deadlines import DeadlineQueue
from coordinator.volatile import DeadlineKey, DeadlineKind, DeadlineSet

KEYS = [DeadlineKey(DeadlineKind.SESSION, owner) for owner in "abc"]


CHANGES = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 9)))


def change(
    queue: DeadlineQueue, running: dict[DeadlineKey, int], key: DeadlineKey, at_ms: int | None
) -> None:
    """Set or move a deadline, or clear it: of that the queue is not told."""
    if at_ms is None:
        running.pop(key, None)
    else:
        running[key] = at_ms
        queue.note(DeadlineSet(key, at_ms))


@given(CHANGES)
def test_the_earliest_of_those_that_run(changes: list[tuple[DeadlineKey, int | None]]) -> None:
    """Set, moved or cleared in any order, it is the smallest of what holds now."""
    running: dict[DeadlineKey, int] = {}
    queue = DeadlineQueue(running)
    for key, at_ms in changes:
        change(queue, running, key, at_ms)
        assert queue.next_ms(running) == min(running.values(), default=None)


@given(CHANGES)
def test_those_that_are_due(changes: list[tuple[DeadlineKey, int | None]]) -> None:
    """At any time, earliest first, each once; to ask changes nothing."""
    running: dict[DeadlineKey, int] = {}
    queue = DeadlineQueue(running)
    for key, at_ms in changes:
        change(queue, running, key, at_ms)
    length = len(queue)
    for now_ms in range(-1, 10):
        expected = sorted((at_ms, key) for key, at_ms in running.items() if at_ms <= now_ms)
        assert queue.due(running, now_ms) == [key for _, key in expected]
    assert len(queue) == length


def test_those_that_are_not_due_are_not_looked_at() -> None:
    """Of ten thousand, two are due."""
    asked = []

    class Watched(dict[DeadlineKey, int]):
        def get(self, key: DeadlineKey, default: int | None = None) -> int | None:  # type: ignore[override]
            asked.append(key)
            return super().get(key, default)

    running = {DeadlineKey(DeadlineKind.SESSION, str(n)): n for n in range(10_000)}
    queue = DeadlineQueue(running)
    assert [key.owner for key in queue.due(Watched(running), 1)] == ["0", "1"]
    assert len(asked) == 2


def test_the_queue_knows_deadlines_that_ran_before_it() -> None:
    """It is an index, and can be made anew at any time."""
    assert DeadlineQueue({KEYS[0]: 7, KEYS[1]: 5}).next_ms({KEYS[0]: 7, KEYS[1]: 5}) == 5


def test_the_queue_does_not_grow_with_every_heartbeat() -> None:
    """A session that is restarted all the time leaves entries behind that no longer hold."""
    running = {KEYS[0]: 0}
    queue = DeadlineQueue({})
    for at_ms in range(10_000):
        running[KEYS[0]] = 1_000_000 + at_ms
        running[KEYS[1]] = 1_000
        queue.note(DeadlineSet(KEYS[0], 1_000_000 + at_ms))
        queue.note(DeadlineSet(KEYS[1], 1_000))
        queue.next_ms(running)
    assert len(queue) < 200


def test_a_copy_is_its_own() -> None:
    """What is noted in one is not in the other."""
    first, second = KEYS[:2]
    queue = DeadlineQueue({first: 5})
    copy = queue.copy()
    copy.note(DeadlineSet(second, 3))
    assert copy.next_ms({first: 5, second: 3}) == 3
    assert (len(queue), len(copy)) == (1, 2)
