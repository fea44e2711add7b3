"""`python -m meantime`: the command line, where its script is not on the path."""

from meantime.cli import main

if __name__ == "__main__":
    main()
