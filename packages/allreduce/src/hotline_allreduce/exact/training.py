"""Training whose bits do not depend on the number of workers, simulated with the real agents and program.

A mini-batch is cut into `SHARDS` shards of fixed shape. A worker computes the gradient of each of its shards,
and adds them up in lanes, never as floats. `python -m hotline_allreduce.exact.training` prints the digest of
the model after 1,000 steps, by number of workers.
"""

from __future__ import annotations

import hashlib
from typing import cast

import click
import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import SwitchHosts
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER
from hotline_allreduce.exact.agents import ExactClient
from hotline_allreduce.exact.design import DESIGN, EXACT
from hotline_allreduce.exact.worker import FLOATS_A_CHUNK
from hotline_allreduce.simulation.measure import IDEAL
from hotline_simulator.config import SimulationError
from hotline_simulator.costs import Network
from hotline_simulator.drive import run_network
from hotline_simulator.loop import resume, wake_agent
from hotline_simulator.simulated_switch import switch_of
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork

SHARDS, SAMPLES_A_SHARD, FEATURES = 32, 4, 3 * FLOATS_A_CHUNK
WORKER_COUNTS = (1, 2, 8, 32)
STEPS, LEARNING_RATE, SEED = 1_000, np.float32(0.1), 1
Floats = NDArray[np.float32]


class ShardedModel:
    """Logistic regression; the data of a shard depend on its number and the step's."""

    def __init__(self) -> None:
        self.weights: Floats = np.zeros(FEATURES, np.float32)
        self._truth = np.random.default_rng(SEED).standard_normal(FEATURES)

    def gradient(self, step: int, shard: int) -> Floats:
        rng = np.random.default_rng((SEED, step, shard))
        # Magnitudes in a chunk differ by more than its two lanes hold, so some values take a second pass.
        magnitudes = np.exp2(-(np.arange(FEATURES) % FLOATS_A_CHUNK).astype(np.float64))
        samples = rng.standard_normal((SAMPLES_A_SHARD, FEATURES)) * magnitudes
        labels = (samples @ self._truth > 0).astype(np.float32)
        x = samples.astype(np.float32)
        errors = 1 / (1 + np.exp(-(x * self.weights).sum(axis=1, dtype=np.float32))) - labels
        return np.asarray((x * errors[:, None].astype(np.float32)).sum(axis=0, dtype=np.float32))

    def apply(self, gradient_sum: Floats) -> None:
        self.weights -= LEARNING_RATE * (gradient_sum / np.float32(SHARDS * SAMPLES_A_SHARD))


def train(workers: int, steps: int, network: Network | None = None) -> tuple[Floats, float]:
    """Return the weights, which all workers have, and the share of values that took a second pass."""
    shards_a_worker, rest = divmod(SHARDS, workers)
    if rest:
        raise ValueError(f"workers: expected a divisor of {SHARDS}, got {workers}")
    system = SimulatedSystem(
        design=DESIGN, arm=EXACT, space=KeySpace(shards_a_worker * FEATURES), workers=workers, servers=1,
        network=network or Network(), hosts=IDEAL, seed=SEED,
    )  # fmt: skip
    simulated = SimulatedNetwork(system, switch_of(DESIGN, SwitchHosts(workers, 1), [EXACT]))
    clients = cast(list[ExactClient], simulated.clients)
    models, finished_steps = [ShardedModel() for _ in clients], [-1] * workers

    def start_next(w: int) -> None:
        client, model = clients[w], models[w]
        client.take_records()
        if finished_steps[w] >= 0:  # before the first step there is no sum
            model.apply(np.asarray(client.result, np.float32))
        finished_steps[w] += 1
        step = finished_steps[w]
        if step < steps:
            numbers = range(w * shards_a_worker, (w + 1) * shards_a_worker)
            gradients = np.stack([model.gradient(step, shard) for shard in numbers])
            client.all_reduce_shards(gradients, workers)
        resume(simulated.pinned_ref, w, simulated.now, NEVER)

    for w in range(workers):
        wake_agent(simulated.pinned_ref, w)
    run_network(simulated, start_next, simulated.drain_log)
    if finished_steps != [steps] * workers:
        raise SimulationError(f"training: expected {steps} steps of each worker, got {finished_steps}")
    weights = models[0].weights
    if any(model.weights.tobytes() != weights.tobytes() for model in models):
        raise SimulationError("training: expected the same weights at all workers")
    return weights, clients[0].repeated_share


@click.command()
@click.option("--steps", type=click.IntRange(min=1), default=STEPS, show_default=True)
@click.option(
    "--loss", type=click.FloatRange(0, 0.5), default=0.0, show_default=True, help="Share of frames."
)
def main(steps: int, loss: float) -> None:
    """Train with 1, 2, 8 and 32 workers; print the digest of each model's bits."""
    click.echo("| workers | SHA-256 of the weights | second pass, % of the values |\n|---:|---|---:|")
    for workers in WORKER_COUNTS:
        weights, repeated = train(workers, steps, Network(loss=loss))
        digest = hashlib.sha256(weights.tobytes()).hexdigest()
        click.echo(f"| {workers} | {digest[:16]} | {100 * repeated:.2f} |")


if __name__ == "__main__":
    main()
