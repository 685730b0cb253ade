"""Random requests to a parameter server."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from foundation.protocol.hashing import ps_ids_of
from foundation.protocol.header import (
    FIRST,
    KEYS,
    MAX_EPOCHS,
    NO_KEY,
    RESPONSE,
    SECOND,
    SET,
    VALUES,
    Op,
    lanes_of_dim,
)
from hosts.keys import KeySpace
from tests.harness.wire import rpc


def random_request(
    random: Random, space: KeySpace, ps: int, n_ps: int, jobs: Sequence[int], with_words: bool = True
) -> bytes:
    """Return an RPC of any shape to a PS, of a few callers and slots, so that turns repeat.

    Without `with_words` there are no requests that set values, or are about an optimiser's state.
    """
    op = random.choice([Op.PULL, Op.PULL, Op.PUSH, Op.PUSH, Op.PUSH, Op.EMPTY])
    dim = 1 if op == Op.EMPTY else random.choice(space.dims)
    all_own = space.all()[ps_ids_of(space.all(), n_ps) == ps]
    own = all_own[space.dims_at(space.positions(all_own)) == dim].tolist()
    count = 0 if op == Op.EMPTY else min(random.randint(1, lanes_of_dim(dim)), len(own))
    keys = random.sample(own, count)
    if count and len(space.dims) > 1 and random.random() < 0.1:
        keys[random.randrange(count)] = random.choice(all_own.tolist())  # perhaps a row of another dim
    if count and random.random() < 0.1:
        keys[random.randrange(count)] = random.choice([space.size, NO_KEY - 1, int(space.all()[0])])
    live = (1 << count) - 1
    if count and random.random() < 0.3:
        live &= random.getrandbits(count) | 1
        keys = [key if live >> lane & 1 else NO_KEY for lane, key in enumerate(keys)]
    fields = {
        "dim": dim, "job": random.choice([*jobs, 6, *jobs]), "worker": random.randint(1, 3),
        "epoch": random.choice([1, 2, 2, random.randint(1, 90)]), "ps": ps if random.random() < 0.95 else 0,
        "seq": 64 * random.randint(0, 4) + random.randrange(3), "iteration": random.getrandbits(32),
        "served": random.getrandbits(32) & live if random.random() < 0.3 else 0, "t0": random.getrandbits(64),
    }  # fmt: skip
    if op == Op.EMPTY and random.random() < 0.7:  # asks about an earlier RPC, or about none
        fields["iteration"] = random.choice([0, 64 * random.randint(0, 5) + random.randrange(3)])
        fields["t0"] = random.choice([1, 1, 3, random.randint(1, 90)])
    if random.random() < 0.02:
        fields["flags"] = RESPONSE
    elif op in (Op.PULL, Op.PUSH) and with_words and random.random() < 0.05:
        fields["served"] = 0
        words = random.choice([0, FIRST, SECOND])
        fields["flags"] = KEYS | VALUES | SET | words if op == Op.PUSH else KEYS | words
    values = [random.choice([1, 2**31 - 1, random.getrandbits(32)]) for _ in range(count * dim)]
    has_values = op == Op.PUSH or (op == Op.PULL and fields["served"])
    return rpc(op, keys, values if has_values else None, **fields)


def requests_of_many_epochs(job: int, worker: int, ps: int) -> list[bytes]:
    """Return requests of as many epochs of a worker as a server remembers, from 2 on."""
    return [
        rpc(Op.EMPTY, job=job, worker=worker, epoch=epoch, ps=ps, seq=64)
        for epoch in range(2, 2 + MAX_EPOCHS)
    ]
