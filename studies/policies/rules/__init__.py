from __future__ import annotations

from studies.policies.policy import PolicySpec
from studies.policies.rules.arc import ARC
from studies.policies.rules.belady import BELADY
from studies.policies.rules.fifo import FIFO
from studies.policies.rules.fixed import RANDOM, TOP_K
from studies.policies.rules.hashed_slots import FIRST_COME, P4_LRU
from studies.policies.rules.heavy_keeper import HEAVY_KEEPER
from studies.policies.rules.lfu import LFU
from studies.policies.rules.lirs import LIRS
from studies.policies.rules.look_ahead import LOOK_AHEAD
from studies.policies.rules.lru import LRU
from studies.policies.rules.s3_fifo import S3_FIFO
from studies.policies.rules.sieve import SIEVE
from studies.policies.rules.space_saving import SPACE_SAVING
from studies.policies.rules.tinylfu import TINYLFU, W_TINYLFU
from studies.policies.rules.window import WINDOW

POLICIES: tuple[PolicySpec, ...] = (
    BELADY, LOOK_AHEAD, TOP_K, WINDOW, TINYLFU, W_TINYLFU, S3_FIFO, SIEVE, ARC, LIRS, LFU, LRU, FIFO,
    P4_LRU, SPACE_SAVING, HEAVY_KEEPER, FIRST_COME, RANDOM,
)  # fmt: skip
BY_NAME = {spec.name: spec for spec in POLICIES}
