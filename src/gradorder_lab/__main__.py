"""`python -m gradorder_lab` is `gradorder`, for launchers that start modules: `torchrun ... -m gradorder_lab`."""

from gradorder_lab.cli import main

if __name__ == "__main__":
    main()
