"""`groupferry check`: tries, before anything is changed, what the gateway will need from a cluster.

Each module tries one thing and yields findings. What answers is judged, not who: a cluster that is
no Apache Kafka is judged by the same trials. Whatever a trial makes in the cluster has a name that
begins with `groupferry-check-`, and is removed again.
"""
