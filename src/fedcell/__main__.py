"""`python -m fedcell` is the command line."""

from fedcell.cli import entry

if __name__ == "__main__":
    entry()
