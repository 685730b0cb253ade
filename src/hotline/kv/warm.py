"""`python -m hotline.kv.warm`, as set-up does: machine code that scripts need, so that none waits for it."""

from hotline.kv.loops import warm

if __name__ == "__main__":
    warm()
