"""Training that goes on when a worker dies: torchrun ends the others, and starts all of them again.

    sudo ./hotline up examples/elastic.toml
    torchrun --standalone --nproc-per-node 2 --max-restarts 3 examples/elastic.py

Logistic regression on the words of synthetic texts. The weights of the words are at the servers, which
`hotline up` keeps while no worker is there. So is the number of steps that each rank has done: a worker adds
to it after the push of a step. Operations are done in their order, so the next worker of a rank goes on where
the last one was, and repeats one step at most. To see that, kill a worker, whose process is printed.
"""

import argparse
import os

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

import hotline

WORDS, LENGTH = 2_000, 20  # size of the vocabulary, and of a text in words
BATCH, RATE = 100, 1.0  # texts of a mini-batch, learning rate
SHOW_EVERY = 100  # steps
SCALE = {"words": 2.0**20, "steps": 1.0}  # fixed-point units per 1.0
TRUE_WEIGHTS = np.random.default_rng(1).normal(0, 0.5, WORDS)
POPULARITY = 1 / np.arange(1, WORDS + 1) ** 0.6


def draw_texts(seed: list[int], number: int) -> tuple[Tensor, Tensor]:
    """Return the words [n, LENGTH] of texts, and their classes [n], 0 or 1; the same for the same seed."""
    random = np.random.default_rng(seed)
    words = random.choice(WORDS, (number, LENGTH), p=POPULARITY / POPULARITY.sum())
    probabilities = 1 / (1 + np.exp(-TRUE_WEIGHTS[words].sum(1)))
    return torch.tensor(words), torch.tensor(random.random(number) < probabilities).float()


def mean_loss(bag: hotline.torch.EmbeddingBag, texts: tuple[Tensor, Tensor]) -> Tensor:
    words, classes = texts
    return binary_cross_entropy_with_logits(bag(words)[:, 0], classes)


def train(kv: hotline.Worker, last_step: int, start: int) -> None:
    """Train up to the last step of this rank, from the first one that no worker before has done."""
    kv.init(np.zeros(WORDS, np.float32), "words")  # does nothing if the tables are set
    kv.init(np.zeros(kv.size, np.float32), "steps")
    bag = hotline.torch.EmbeddingBag(WORDS, 1, mode="sum", kv=kv, table="words", lr=RATE)
    held_out = draw_texts([kv.size], 5_000)

    def show(step: int) -> None:
        with torch.no_grad():
            loss = mean_loss(bag, held_out).item()
        kv.report(loss=loss, step=step)
        place = f"start {start}, worker {kv.rank} (process {os.getpid()}), step {step}"
        print(f"{place}: loss {loss:.3f}", flush=True)

    steps_done = np.empty(1, np.float32)
    kv.wait(kv.pull([kv.rank], steps_done, "steps"))
    first_step = int(steps_done[0])
    show(first_step)
    for step in range(first_step, last_step):
        mean_loss(bag, draw_texts([kv.rank, step], BATCH)).backward()  # pushes the rows
        kv.push([kv.rank], np.ones(1, np.float32), "steps")
        if (step + 1) % SHOW_EVERY == 0:
            show(step + 1)
    kv.barrier()
    if kv.rank == 0:
        show(last_step)
    kv.barrier()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000, help="number of steps of each worker")
    options = parser.parse_args()
    if "TORCHELASTIC_RESTART_COUNT" not in os.environ:
        parser.error("expected the environment of torchrun, got none: start this script by torchrun")
    torch.set_num_threads(1)
    size, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    with hotline.Worker({"words": (WORDS, 1), "steps": (size, 1)}, SCALE, rank=rank) as kv:
        train(kv, options.steps, int(os.environ["TORCHELASTIC_RESTART_COUNT"]))


if __name__ == "__main__":
    main()
