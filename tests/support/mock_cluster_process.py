"""The process of `mock_cluster.py`, which runs librdkafka's mock cluster.

It prints the bootstrap addresses, then reads one command per line from its standard input and
answers each with one line, until the input ends. A hundred tests start it, so it imports little:
it finds the extension of confluent_kafka without loading the package.
"""

import ctypes
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def _library() -> Any:
    package = find_spec("confluent_kafka")
    assert package is not None
    assert package.origin is not None
    (extension,) = Path(package.origin).parent.glob("cimpl.*.so")
    library = ctypes.CDLL(f"{extension}")
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_new", pointer, [number, pointer, text, ctypes.c_size_t]),
        ("rd_kafka_mock_cluster_new", pointer, [pointer, number]),
        ("rd_kafka_mock_cluster_bootstraps", text, [pointer]),
        ("rd_kafka_mock_topic_create", number, [pointer, text, number, number]),
        ("rd_kafka_mock_broker_set_down", number, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_up", number, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_set_apiversion", number, [pointer, *[ctypes.c_int16] * 3]),
        ("rd_kafka_mock_broker_set_host_port", number, [pointer, ctypes.c_int32, text, number]),
        ("rd_kafka_mock_broker_add", number, [pointer, ctypes.c_int32]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _obey(library: Any, cluster: Any, brokers: int, words: list[str]) -> int:
    match words:
        case ["topic", name, partitions]:
            done = library.rd_kafka_mock_topic_create(
                cluster, name.encode(), int(partitions), brokers
            )
        case ["down", node_id]:
            done = library.rd_kafka_mock_broker_set_down(cluster, int(node_id))
        case ["up", node_id]:
            done = library.rd_kafka_mock_broker_set_up(cluster, int(node_id))
        case ["address", node_id, host, port]:
            done = library.rd_kafka_mock_broker_set_host_port(
                cluster, int(node_id), host.encode(), int(port)
            )
        case ["versions", api_key, first, last]:
            done = library.rd_kafka_mock_set_apiversion(
                cluster, int(api_key), int(first), int(last)
            )
        case ["broker", node_id]:
            done = library.rd_kafka_mock_broker_add(cluster, int(node_id))
        case _:
            done = -1
    return int(done)


def main() -> None:
    """Run as the child."""
    brokers = int(sys.argv[1])
    library = _library()
    reason = ctypes.create_string_buffer(512)
    client = library.rd_kafka_new(0, library.rd_kafka_conf_new(), reason, len(reason))
    cluster = library.rd_kafka_mock_cluster_new(client, brokers)
    print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    for line in sys.stdin:
        print(_obey(library, cluster, brokers, line.split()), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
