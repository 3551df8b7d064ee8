"""Misbehaviour of clients is logged, and counted for the metrics."""

from structlog.testing import capture_logs

from gateway.data_path.client_warnings import ClientWarnings


def test_each_occurrence_counts() -> None:
    """Occurrences are counted by kind, whether or not their lines are written."""
    client_warnings = ClientWarnings()
    with capture_logs() as lines:
        client_warnings.warn("bad_frame_received", "10.0.0.1", reason="no request")
        client_warnings.warn("bad_frame_received", "10.0.0.2", reason="no request")
        client_warnings.warn("connection_refused", "10.0.0.1")
    assert client_warnings.counts == {"bad_frame_received": 2, "connection_refused": 1}
    assert lines[0] == {
        "event": "bad_frame_received",
        "log_level": "warning",
        "client_host": "10.0.0.1",
        "reason": "no request",
    }
