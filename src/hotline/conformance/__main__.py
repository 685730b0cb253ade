"""`python -m hotline.conformance`."""

from hotline.conformance.cli import main

if __name__ == "__main__":
    main()
