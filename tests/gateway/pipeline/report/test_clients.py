"""Members by client version and readiness."""

from gateway.pipeline.report.digest import Digest, clients
from tests.support.report_tables import Row, tables


def seen(members: int, protocol: str, can_convert: bool, knows: bool | None, **more: str) -> Row:
    """Some members of one group with the same client."""
    return {
        "software_name": "lib",
        "software_version": "1",
        "protocol": protocol,
        "members": members,
        "can_convert": can_convert,
        "speaks_consumer": knows,
        **more,
    }


def test_each_member_is_counted_once_by_its_readiness() -> None:
    """Versions with most members come first."""
    rows = [
        seen(1, "consumer", True, True),
        seen(2, "classic", True, True),
        seen(1, "classic", False, True, group_id="i", blocked_by="is Connect"),
        seen(3, "classic", False, True, group_id="h", blocked_by="was released"),
        seen(8, "classic", True, False),
        seen(16, "classic", True, None),
        seen(3, "classic", True, True, software_version="2"),
    ]
    digest = Digest(top=1)
    for group_id in ("g", "h", "i"):
        its_rows = [row for row in rows if row.get("group_id", "g") == group_id]
        digest.add(("", group_id), tables(readiness=its_rows))
    found, left_out = clients(digest.versions)
    assert left_out == 0
    assert [client.model_dump(exclude={"software_name"}) for client in found] == [
        {
            "software_version": "1",
            "groups": 3,
            "on_consumer": 1,
            "ready": 2,
            "blocked": 4,
            "too_old": 8,
            "unknown": 16,
            "blocked_by": ("was released", "is Connect"),
        },
        {
            "software_version": "2",
            "groups": 1,
            "on_consumer": 0,
            "ready": 3,
            "blocked": 0,
            "too_old": 0,
            "unknown": 0,
            "blocked_by": (),
        },
    ]
