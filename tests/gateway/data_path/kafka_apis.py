"""Compares the table of apis with the message definitions of Kafka's own client library.

`python -m tests.gateway.data_path.kafka_apis` takes the newest kafka-clients that Maven finds, and
fails if it has an api or a version that is neither served nor left out with a reason, an answer
with addresses that is relayed, or a request that could name the gateway's own topics.
"""

import json
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from gateway.data_path.api_table import API_TABLE, LEFT_OUT, ApiHandling
from gateway.data_path.entities import NAMING_APIS
from kafka_codecs.api_keys import ApiKey
from tests.support.installs import run

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
CLIENTS = "org.apache.kafka:kafka-clients"
KNOWN_NEWER = {
    ApiKey.FETCH: (18, "from v16 on addresses stand behind all records, which are never held"),
    ApiKey.OFFSET_COMMIT: (10, "v10 names topics by id, which the engine does not know"),
    ApiKey.OFFSET_FETCH: (10, "as above"),
    ApiKey.ADD_PARTITIONS_TO_TXN: (5, "from v4 on for brokers only"),
}
"""The newest version that is known of an api, and why clients are not offered it."""
ADDRESSES_PASS = {
    *(ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE),  # of applications
    ApiKey.FIND_COORDINATOR,  # they are replaced
}
"""The apis that may be inspected or relayed although their answers have addresses."""
NAMES_PASS = {
    # They name topics in the offsets of a group, which are not the topics' own.
    *(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    *(ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS),
    # A member may not subscribe to a topic that it may not describe: requests/authorization.py.
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.DESCRIBE_QUORUM,  # the controllers' log
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,  # a text for people
}
"""The apis whose requests name topics, and may name the gateway's own."""
_COMMENT = re.compile(r"(^|\s)//.*$", re.MULTILINE)


def _definitions(jar: Path, kind: str) -> Iterator[Any]:
    """The definitions of all requests, or of all responses. Retired ones are left out."""
    with ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(f"{kind}.json"):
                definition = json.loads(_COMMENT.sub("", archive.read(name).decode()))
                if definition["validVersions"] != "none":
                    yield definition


def requests_in(jar: Path) -> Mapping[int, tuple[str, int]]:
    """The requests that a kafka-clients defines: the name and newest version of each, by api
    key."""
    return {
        definition["apiKey"]: (
            definition["name"],
            int(definition["validVersions"].rpartition("-")[2]),
        )
        for definition in _definitions(jar, "Request")
    }


def answers_with_addresses(jar: Path) -> Mapping[int, int]:
    """The apis whose answers have a host with a port, and the first version that has them."""
    return {
        answer["apiKey"]: min(since)
        for answer in _definitions(jar, "Response")
        if (since := list(_addresses_since([answer, *answer.get("commonStructs", ())])))
    }


def _addresses_since(structures: Sequence[Any]) -> Iterator[int]:
    for structure in structures:
        fields = structure.get("fields", ())
        versions = {field["name"]: field["versions"] for field in fields}
        if versions.keys() >= {"Host", "Port"}:
            yield int(re.split("[-+]", versions["Host"])[0])
        yield from _addresses_since(fields)


def requests_with_names(jar: Path) -> set[int]:
    """The apis whose requests name topics or transactional ids."""
    return {
        request["apiKey"]
        for request in _definitions(jar, "Request")
        if _has_names([request, *request.get("commonStructs", ())])
    }


def _has_names(structures: Sequence[Any]) -> bool:
    return any(
        structure.get("entityType") in ("topicName", "transactionalId")
        or _has_names(structure.get("fields", ()))
        for structure in structures
    )


def unmasked_names(naming: Collection[int]) -> Iterator[str]:
    """A line for each api that could name the gateway's own topics and transactional ids."""
    for key in sorted(set(naming) & set(API_TABLE) - NAMING_APIS - NAMES_PASS):
        yield f"{ApiKey(key).name} names topics or transactional ids, which no codec declares"


def relayed_addresses(addressed: Mapping[int, int]) -> Iterator[str]:
    """A line for each api whose answers pass although they have addresses."""
    for key in sorted(set(addressed) & set(API_TABLE) - ADDRESSES_PASS):
        entry = API_TABLE[ApiKey(key)]
        passes = entry.treatment in (ApiHandling.RELAY, ApiHandling.INSPECT)
        if passes and entry.max_version >= addressed[key]:
            yield f"{ApiKey(key).name} v{addressed[key]} has addresses, and is relayed"


def unknown_apis(defined: Mapping[int, tuple[str, int]]) -> Iterator[str]:
    """A line for each api or version without a decision."""
    for key, (name, newest) in sorted(defined.items()):
        if key not in set(ApiKey):
            yield f"{name} ({key}) is unknown"
        elif (entry := API_TABLE.get(ApiKey(key))) is not None:
            known, _reason = KNOWN_NEWER.get(ApiKey(key), (entry.max_version, ""))
            if newest > known:
                yield f"{name} v{newest} is unknown; the newest known is v{known}"
        elif ApiKey(key) not in LEFT_OUT:
            yield f"{name} ({key}) is neither served nor left out"


def main() -> int:
    """Print what is unknown of the newest kafka-clients. The exit status is 1 if anything is."""
    with tempfile.TemporaryDirectory() as folder:
        artifact = f"-Dartifact={CLIENTS}:LATEST"
        run(["mvn", "-q", "-B", f"{PLUGIN}:copy", artifact, f"-DoutputDirectory={folder}"])
        (jar,) = Path(folder).glob("kafka-clients-*.jar")
        lines = [
            *unknown_apis(requests_in(jar)),
            *relayed_addresses(answers_with_addresses(jar)),
            *unmasked_names(requests_with_names(jar)),
        ]
    for line in lines:
        print(f"{jar.stem}: {line}")
    if not lines:
        print(f"{jar.stem}: every api and version is known, and no address or name passes")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
