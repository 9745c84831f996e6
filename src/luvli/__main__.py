"""`python -m luvli` is the command `luvli`."""

from luvli.cli import main

if __name__ == "__main__":
    main()
