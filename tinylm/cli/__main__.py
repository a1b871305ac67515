"""python -m tinylm.cli"""

import sys

from tinylm.cli.command import main

sys.exit(main())
