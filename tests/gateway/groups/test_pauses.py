"""Pauses of the process postpone the members' timeouts."""

from gateway.groups.pauses import PAUSE_MS, Pauses

GRACE_MS_MAX = 15_000
START_MS = 1_000_000


def run(pauses: Pauses, from_ms: int, length_ms: int) -> int:
    """Let the process run without a pause. Returns the time at the end."""
    for at_ms in range(from_ms, from_ms + length_ms + 1, 1_000):
        pauses.observe(at_ms)
    return from_ms + length_ms


def test_a_running_process_postpones_nothing() -> None:
    """Rare deadlines do not count as a pause."""
    pauses = Pauses(START_MS, grace_ms_max=GRACE_MS_MAX)
    now_ms = run(pauses, START_MS, 60_000)
    assert pauses.observe(now_ms) == START_MS
    assert pauses.observe(now_ms + PAUSE_MS - 1) == START_MS


def test_a_pause_grants_its_own_length() -> None:
    """Clients retry less often the longer they get no answer."""
    pauses = Pauses(START_MS, grace_ms_max=GRACE_MS_MAX)
    now_ms = START_MS + PAUSE_MS
    assert pauses.observe(now_ms) == now_ms + PAUSE_MS


def test_the_first_to_look_notices_a_pause_and_only_once() -> None:
    """A group's deadline may be the first to run. One line reports the pause."""
    noticed: list[tuple[int, int]] = []
    pauses = Pauses(START_MS, grace_ms_max=GRACE_MS_MAX)
    pauses.listen(lambda length_ms, grace_ms: noticed.append((length_ms, grace_ms)))
    for _ in range(2):
        assert pauses.observe(START_MS + 20_000) == START_MS + 20_000 + GRACE_MS_MAX
    assert noticed == [(20_000, GRACE_MS_MAX)]


def test_a_long_pause_counts_like_a_restart() -> None:
    """Clients have reconnected by then."""
    pauses = Pauses(START_MS, grace_ms_max=GRACE_MS_MAX)
    now_ms = START_MS + 3_600_000
    assert pauses.observe(now_ms) == now_ms + GRACE_MS_MAX


def test_a_shorter_pause_does_not_end_the_grace_of_a_longer_one() -> None:
    """The clients of the first one are still coming back."""
    pauses = Pauses(START_MS, grace_ms_max=GRACE_MS_MAX)
    over_ms = pauses.observe(START_MS + 10_000)
    assert pauses.observe(START_MS + 10_000 + PAUSE_MS) == over_ms


def test_repeated_pauses_do_not_stop_time() -> None:
    """The process ran for longer than it paused, so dead members time out in the end."""
    pauses, now_ms = Pauses(START_MS, grace_ms_max=GRACE_MS_MAX), START_MS
    for _ in range(10):
        now_ms = run(pauses, now_ms + 5_000, 8_000)
        assert pauses.observe(now_ms) < now_ms
