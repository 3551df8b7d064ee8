"""Compares the table of apis with the message definitions of Kafka's own client library.

`python -m tests.support.kafka_apis` takes the newest kafka-clients that Maven finds, and fails if
it has an api or a version that is neither served nor left out with a reason.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

from gateway.data_path.treatments import LEFT_OUT, TREATMENTS
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
_COMMENT = re.compile(r"(^|\s)//.*$", re.MULTILINE)


def requests_in(jar: Path) -> Mapping[int, tuple[str, int]]:
    """The requests that a kafka-clients defines: the name and newest version of each, by api key.
    Retired ones are left out."""
    found: dict[int, tuple[str, int]] = {}
    with ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith("Request.json"):
                request = json.loads(_COMMENT.sub("", archive.read(name).decode()))
                if (versions := request["validVersions"]) != "none":
                    newest = int(versions.rpartition("-")[2])
                    found[request["apiKey"]] = (request["name"], newest)
    return found


def unknown_apis(defined: Mapping[int, tuple[str, int]]) -> Iterator[str]:
    """A line for each api or version that nobody has decided about."""
    for key, (name, newest) in sorted(defined.items()):
        if key not in set(ApiKey):
            yield f"{name} ({key}) is unknown"
        elif (treated := TREATMENTS.get(ApiKey(key))) is not None:
            known, _reason = KNOWN_NEWER.get(ApiKey(key), (treated.max_version, ""))
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
        lines = list(unknown_apis(requests_in(jar)))
    for line in lines:
        print(f"{jar.stem}: {line}")
    if not lines:
        print(f"{jar.stem}: every api and version is known")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
