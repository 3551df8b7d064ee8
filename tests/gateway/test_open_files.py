"""The limit on open files."""

import resource

import pytest
from structlog.testing import capture_logs

from gateway.open_files import CONNECTIONS_MAX, connections_within


@pytest.mark.parametrize(
    ("limit", "fitting"), [(100_000, 2_000), (4_256, 2_000), (1_256, 500), (100, 25)]
)
def test_a_low_limit_of_open_files_limits_connections(
    monkeypatch: pytest.MonkeyPatch, limit: int, fitting: int
) -> None:
    """One line reports it. Clients beyond the limit are refused cleanly."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, limit))
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: wanted)
    with capture_logs() as lines:
        assert connections_within(2_000) == fitting
    warning = [
        {
            "event": "open_files_limited",
            "limit": limit,
            "max_connections": fitting,
            "log_level": "warning",
        }
    ]
    assert lines == (warning if fitting < 2_000 else [])


@pytest.mark.parametrize(
    ("limit", "fitting"), [(resource.RLIM_INFINITY, CONNECTIONS_MAX), (20_000, 9_872)]
)
def test_connections_are_as_many_as_files_by_default(
    monkeypatch: pytest.MonkeyPatch, limit: int, fitting: int
) -> None:
    """An operator who asked for no number gets no warning."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, limit))
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: wanted)
    with capture_logs() as lines:
        assert connections_within(None) == fitting
    assert not lines
