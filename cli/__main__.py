"""`python -m cli`: the console script `hotline`."""

from cli import main

main()
