"""Runs a Python client that stops polling at SIGUSR2, as if its application were stuck.

    python hanging_program.py PYTHON [OPTION]... -m MODULE ARGUMENT...

Only the thread that polls is stuck; the client's own threads send heartbeats all the same.
"""

import runpy
import signal
import sys
import time

HANG_S = 3_600


def main() -> None:
    """Run the module in this process. PYTHON is the interpreter that runs it already."""
    signal.signal(signal.SIGUSR2, lambda *_: time.sleep(HANG_S))
    module, *arguments = sys.argv[sys.argv.index("-m") + 1 :]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
