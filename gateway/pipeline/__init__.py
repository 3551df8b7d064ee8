"""What the migration did, computed by Spark. The gateway never imports this package.

Only `errors`, `installed` and `java` may be imported where PySpark is not installed.
"""
