"""`python -m croq_magic` is `croqtile`."""

import sys

from croq_magic.cli import main

if __name__ == "__main__":
    sys.exit(main())
