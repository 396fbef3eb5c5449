"""`python -m gradorder_lab` is `gradorder`."""

from gradorder_lab.cli import main

if __name__ == "__main__":
    main()
