"""python -m tinylm: the command tinylm."""

import sys

from tinylm.cli import main

sys.exit(main())
