"""`python -m gateway` is `groupferry`."""

import sys

from gateway.cli import main

sys.exit(main())
