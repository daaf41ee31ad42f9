"""`python -m evenhand`: the command, where its script is not on the path."""

from evenhand.cli import main

if __name__ == "__main__":
    main()
