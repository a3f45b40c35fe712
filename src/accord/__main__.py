"""`python -m accord` is the `accord` command."""

import sys

if __name__ == "__main__":
    # `-m` puts the working directory before everything that is installed: a file `json.py` there would become a part
    # of Accord. Python itself has looked there already, so `accord` is safer in a foreign folder.
    if not sys.flags.safe_path:
        del sys.path[0]

    from accord.cli import main

    main()
