"""DLRM (Naumov et al. 2019) on synthetic clicks of the shape of Criteo's: 13 numbers and 26 categories.

Each category has a table at the servers, `hotline.torch.EmbeddingBag`. The dense part, two perceptrons, is
one more table, with one value a row. A worker pulls the rows of its mini-batch and the whole dense part. It
pushes the gradients of both, multiplied by the negative learning rate: asynchronous SGD, in which nothing is
averaged. With --optimiser it pushes the gradients, and servers optimise. There is one model, at the servers.
Each mini-batch of each worker is one step of training, with gradients at the values that were pulled.
"""

import argparse

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import hotline

NUMBERS, CATEGORIES, DIM = 13, 26, 8
ROWS = [round(4 * 1.3**k) for k in range(CATEGORIES)]
"""Number of rows of each category: from 4 to 2,822."""
BATCH = 128  # samples of a mini-batch
SCALE = 2.0**20  # servers add fixed-point values, in units of 1 / SCALE
RATE, RATE_OF_ROWS, SPREAD = 0.4, 6.0, 0.3
"""Learning rates of the dense part and of rows, and standard deviation of initial rows. A row is in few
samples of a mini-batch, so its gradients are small."""
REPORT_EVERY = 10


def clicks(number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return numbers [n, 13], categories [n, 26] and clicks [n]; a few rows are in most samples."""
    random = np.random.default_rng(1)
    numbers = random.normal(size=(number, NUMBERS))
    popularities = [1 / np.arange(1, rows + 1) for rows in ROWS]
    categories = np.stack([random.choice(len(p), number, p=p / p.sum()) for p in popularities], 1)
    logit = numbers @ random.normal(0, 0.5, NUMBERS) - 1
    for k, rows in enumerate(ROWS):
        logit += random.normal(0, 0.4, rows)[categories[:, k]]
    clicked = random.random(number) < 1 / (1 + np.exp(-logit))
    return torch.tensor(numbers).float(), torch.tensor(categories), torch.tensor(clicked).float()


class Dense(torch.nn.Module):
    """The two perceptrons around the embeddings; `flat` is a vector of all their parameters."""

    def __init__(self) -> None:
        super().__init__()
        pairs = (CATEGORIES + 1) * CATEGORIES // 2
        self.bottom = torch.nn.Sequential(
            torch.nn.Linear(NUMBERS, 32), torch.nn.ReLU(), torch.nn.Linear(32, DIM), torch.nn.ReLU()
        )
        self.top = torch.nn.Sequential(
            torch.nn.Linear(DIM + pairs, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
        )
        self.flat = torch.nn.utils.parameters_to_vector(self.parameters()).detach()
        torch.nn.utils.vector_to_parameters(self.flat, self.parameters())  # which are views of it now

    def gradient(self) -> Tensor:
        gradient = torch.cat([parameter.grad.reshape(-1) for parameter in self.parameters()])
        self.zero_grad()
        return gradient


class Model:
    def __init__(self, kv: hotline.Worker, dense: Dense, servers_optimise: bool) -> None:
        self.kv, self.dense, self.keys = kv, dense, np.arange(len(dense.flat))
        self.factor, lr = (1.0, None) if servers_optimise else (-RATE, RATE_OF_ROWS)
        self.bags = [
            hotline.torch.EmbeddingBag(rows, DIM, mode="sum", kv=kv, table=f"category {k}", lr=lr)
            for k, rows in enumerate(ROWS)
        ]
        kv.init(dense.flat.numpy(), "dense")
        for bag in self.bags:
            kv.init(SPREAD * torch.randn(bag.num_embeddings, DIM).numpy(), bag.table)
        kv.barrier()

    def prefetch(self, categories: Tensor) -> None:
        self.dense_pull = self.kv.pull(self.keys, self.dense.flat.numpy(), "dense")
        for k, bag in enumerate(self.bags):
            bag.prefetch(categories[:, k : k + 1])

    def logits(self, numbers: Tensor, categories: Tensor) -> Tensor:
        """Return the logits [n] of samples that were prefetched."""
        self.kv.wait(self.dense_pull)
        bottom = self.dense.bottom(numbers)
        rows = [bag(categories[:, k : k + 1]) for k, bag in enumerate(self.bags)]
        vectors = torch.stack([bottom, *rows], 1)
        first, second = torch.tril_indices(CATEGORIES + 1, CATEGORIES + 1, -1)
        pairs = (vectors @ vectors.transpose(1, 2))[:, first, second]
        return self.dense.top(torch.cat([bottom, pairs], 1))[:, 0]

    def step(self, numbers: Tensor, categories: Tensor, clicked: Tensor) -> float:
        loss = functional.binary_cross_entropy_with_logits(self.logits(numbers, categories), clicked)
        loss.backward()  # pushes the rows' gradients
        self.kv.push(self.keys, (self.factor * self.dense.gradient()).numpy(), "dense")
        return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--optimiser", help='such as "adagrad(lr=0.05)", with design none')
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    data = clicks(options.samples)
    held_out = torch.arange(options.samples) % 10 == 9
    dense = Dense()
    tables = {f"category {k}": (rows, DIM) for k, rows in enumerate(ROWS)}
    tables["dense"] = len(dense.flat), 1
    with hotline.Worker(tables, scale=SCALE, optimiser=options.optimiser) as kv:
        model = Model(kv, dense, options.optimiser is not None)
        share = torch.nonzero(~held_out)[kv.rank :: kv.size, 0]
        batches = [
            [each[samples] for each in data]
            for _ in range(options.epochs)
            for samples in share[torch.randperm(len(share))].split(BATCH)
        ]
        model.prefetch(batches[0][1])
        losses = []
        for number, batch in enumerate(batches, start=1):
            losses.append(model.step(*batch))
            if number < len(batches):
                model.prefetch(batches[number][1])
            if number % REPORT_EVERY == 0:
                kv.report(loss=float(np.mean(losses[-REPORT_EVERY:])), step=number)
        kv.barrier()
        if kv.rank == 0:
            numbers, categories, clicked = (each[held_out] for each in data)
            model.prefetch(categories)
            with torch.no_grad():
                logits = model.logits(numbers, categories)
            loss = functional.binary_cross_entropy_with_logits(logits, clicked).item()
            click_rate = data[2][~held_out].mean()
            base_loss = functional.binary_cross_entropy(click_rate.expand(len(clicked)), clicked).item()
            print(
                f"log loss of held-out samples is {loss:.3f}; {base_loss:.3f} if predicted by the click rate"
            )
        kv.barrier()


if __name__ == "__main__":
    main()
