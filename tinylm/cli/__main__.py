"""python -m tinylm.cli"""

import sys

from tinylm.cli.arguments import main

sys.exit(main())
