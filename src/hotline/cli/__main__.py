"""`python -m hotline.cli`: the console script `hotline`."""

from hotline.cli import main

main()
