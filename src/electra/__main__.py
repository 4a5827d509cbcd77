import sys

from electra.cli.main import main

sys.exit(main())
