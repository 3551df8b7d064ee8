"""The limit on open files."""

import resource

import pytest
from structlog.testing import capture_logs

from gateway import settings
from gateway.open_files import within_open_files


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
        found = within_open_files(settings.load({"upstream": "localhost:9092"}))
    assert found.max_connections == fitting
    told = [{"event": "open_files_limited", "limit": limit, "max_connections": fitting}]
    assert [{name: line[name] for name in told[0]} for line in lines] == (
        told if fitting < 2_000 else []
    )
