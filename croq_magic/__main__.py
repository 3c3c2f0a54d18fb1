"""`python -m croq_magic` is `croqtile`."""

import sys

from croq_magic.driver import main

if __name__ == "__main__":
    sys.exit(main())
