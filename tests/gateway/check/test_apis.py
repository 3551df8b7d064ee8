"""What versions of apis are worth to the gateway."""

from gateway.check.apis import check_apis, judge_release
from gateway.check.finding import Result
from gateway.hosting.move_requests import NewProtocol
from kafka_codecs.api_keys import ApiKey


def everything() -> dict[int, tuple[int, int]]:
    return dict.fromkeys(ApiKey, (0, 20))


def test_a_broker_with_all_versions_does_everything() -> None:
    assert {finding.result for finding in check_apis(everything())} == {Result.WORKS}


def test_without_static_members_no_group_can_be_hosted() -> None:
    findings = list(check_apis(everything() | {ApiKey.JOIN_GROUP: (0, 4)}))
    (failed,) = [finding for finding in findings if finding.result is Result.FAILS]
    assert failed.detail == "hosting groups: no JOIN_GROUP v5"


def test_a_missing_api_costs_only_what_rests_on_it() -> None:
    versions = everything()
    del versions[ApiKey.CONSUMER_GROUP_HEARTBEAT]
    findings = list(check_apis(versions))
    (limited,) = [finding for finding in findings if finding.result is not Result.WORKS]
    assert limited.result is Result.LIMITED
    assert limited.remedy == "a cluster that has them, as Kafka does since 4.0"


def test_a_new_protocol_that_is_switched_off_costs_what_a_missing_one_costs() -> None:
    """Kafka 3.9 lists its apis and takes no member of it."""
    finding = judge_release(NewProtocol(why_no_natives="the cluster does not have it"))
    assert (finding.result, finding.effect != "") == (Result.LIMITED, True)
    assert finding.detail.endswith(": the cluster does not have it")


def test_a_cluster_that_keeps_the_protocols_apart_takes_no_mixed_group() -> None:
    finding = judge_release(NewProtocol(why_not_mixed="the cluster keeps the two apart"))
    assert finding.result is Result.LIMITED
    assert "roll a mixed group to the end" in finding.remedy
    assert judge_release(NewProtocol()).result is Result.WORKS
