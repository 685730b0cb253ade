"""Matrix factorisation by asynchronous SGD, on synthetic ratings of the shape of MovieLens-100K's.

A rating is the mean plus the product of two rows, the user's and the film's. Each worker has its share of the
ratings. It pulls the rows of a mini-batch, and pushes the update of a step of SGD.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

import hotline

USERS, FILMS, DIM = 943, 1682, 8
BATCH, RATE, DECAY = 500, 0.08, 0.02  # ratings of a mini-batch, learning rate, weight decay
MEAN = 3.5  # of all ratings

Floats = NDArray[np.float32]


def ratings(number: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return users, films and ratings from 1 to 5, each [number]; a few films have most of the ratings."""
    random = np.random.default_rng(1)
    users, films = random.normal(size=(USERS, 3)), random.normal(size=(FILMS, 3))
    popularity = 1 / np.arange(1, FILMS + 1) ** 0.8
    user = random.integers(0, USERS, number)
    film = random.choice(FILMS, number, p=popularity / popularity.sum())
    rated = MEAN + 0.6 * np.einsum("nd,nd->n", users[user], films[film]) + random.normal(0, 0.3, number)
    return user, film, np.clip(rated, 1, 5).astype(np.float32)


def error(users: Floats, films: Floats, rated: Floats) -> Floats:
    """Return the errors [n] of predictions from rows [n, DIM] of users and films, for ratings [n]."""
    return (MEAN + np.einsum("nd,nd->n", users, films) - rated).astype(np.float32)


def step(kv: hotline.Worker, user: NDArray[np.int64], film: NDArray[np.int64], rated: Floats) -> float:
    """Train on one mini-batch [n], and return its mean squared error."""
    (user_keys, of_user), (film_keys, of_film) = (
        np.unique(each, return_inverse=True) for each in (user, film)
    )
    users = np.empty((len(user_keys), DIM), np.float32)
    films = np.empty((len(film_keys), DIM), np.float32)
    kv.pull(user_keys, users, "users")
    kv.wait(kv.pull(film_keys, films, "films"))
    errors = error(users[of_user], films[of_film], rated)
    for name, keys, row_of_rating, rows, factors in (
        ("users", user_keys, of_user, users, films[of_film]),
        ("films", film_keys, of_film, films, users[of_user]),
    ):
        gradient = np.zeros_like(rows)
        np.add.at(gradient, row_of_rating, errors[:, None] * factors + DECAY * rows[row_of_rating])
        # A row with n ratings in the mini-batch takes a step of sqrt(n) times its mean gradient.
        count = np.bincount(row_of_rating, minlength=len(keys)).astype(np.float32)[:, None]
        kv.push(keys, -RATE * gradient / np.sqrt(count), name)
    return float((errors**2).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--ratings", type=int, default=100_000)
    options = parser.parse_args()
    user, film, rated = ratings(options.ratings)
    held_out = np.arange(options.ratings) % 10 == 9
    with hotline.Worker(tables={"users": (USERS, DIM), "films": (FILMS, DIM)}) as kv:
        random = np.random.default_rng(kv.rank)
        kv.init(random.normal(0, 0.1, (USERS, DIM)).astype(np.float32), "users")
        kv.init(random.normal(0, 0.1, (FILMS, DIM)).astype(np.float32), "films")
        kv.barrier()
        share = np.flatnonzero(~held_out)[kv.rank :: kv.size]
        for epoch in range(options.epochs):
            random.shuffle(share)
            losses = [
                step(kv, user[at], film[at], rated[at])
                for at in np.split(share, range(BATCH, len(share), BATCH))
            ]
            kv.report(loss=float(np.mean(losses)), epoch=epoch)
        kv.barrier()
        if kv.rank == 0:
            users, films = kv.read("users")[user[held_out]], kv.read("films")[film[held_out]]
            rmse = np.sqrt((error(users, films, rated[held_out]) ** 2).mean())
            base_rmse = np.sqrt(((rated[held_out] - MEAN) ** 2).mean())
            print(f"RMSE of held-out ratings is {rmse:.3f}; {base_rmse:.3f} if predicted by the mean")
        kv.barrier()


if __name__ == "__main__":
    main()
