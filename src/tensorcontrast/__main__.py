"""``python -m tensorcontrast``: the command line."""

from tensorcontrast.cli import main

if __name__ == "__main__":
    main()
