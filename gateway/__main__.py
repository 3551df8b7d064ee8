"""`python -m gateway` is `groupferry`, and so is this file, which spark-submit can run."""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder has a module that would hide the package
    sys.path[0] = str(Path(__file__).parents[1])

from gateway.cli import main

sys.exit(main())
