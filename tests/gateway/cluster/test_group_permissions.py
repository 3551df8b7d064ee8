"""The questions that tell what a user may do with groups, without a broker."""

import pytest

from gateway.cluster.group_permissions import Operation, questions_about
from kafka_codecs.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_codecs.offset_delete import OffsetDeleteRequest


def test_no_question_has_an_effect() -> None:
    """Nothing is deleted or changed where the user has the permission."""
    for operation in set(Operation) - {Operation.WRITE}:
        for question in questions_about(operation, ("a", "b")):
            if isinstance(question, OffsetDeleteRequest):
                assert question.topics == ()
            if isinstance(question, IncrementalAlterConfigsRequest):
                assert question.validate_only
                assert all(resource.configs == () for resource in question.resources)


def test_nobody_asks_for_a_permission_that_groups_do_not_have() -> None:
    """Kafka has no WRITE on a group."""
    with pytest.raises(ValueError, match="groups cannot be written"):
        questions_about(Operation.WRITE, ("a",))
