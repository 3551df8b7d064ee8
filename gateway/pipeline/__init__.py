"""Analyses migrations from the gateways' events, on Spark. The gateway never imports this package.

Only `errors`, `installed` and `java` can be imported without PySpark.
"""
