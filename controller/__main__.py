"""`python -m controller`: the console script `hotline`."""

from controller.cli import main

main()
