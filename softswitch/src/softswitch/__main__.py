"""Entry point of `python -m softswitch`."""

from softswitch.verbs import main

if __name__ == "__main__":
    main()
