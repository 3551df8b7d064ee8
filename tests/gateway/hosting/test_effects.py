"""The lines that a hosted group has logged."""

from tests.support.hosted_scene import HostedScene, error_of


def test_a_refusal_is_logged_with_its_reason() -> None:
    """Operators see why a client is refused."""
    live = HostedScene()
    live.native_member()
    call = live.native("n", 99)
    (line,) = (line for line in live.lines if line.event == "request_refused")
    assert line.fields["error_code"] == error_of(call).name
    assert line.fields["event_type"] == "ConsumerHeartbeatReceived"
