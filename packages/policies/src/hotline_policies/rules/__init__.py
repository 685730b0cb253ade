from __future__ import annotations

from hotline_policies.policy import PolicySpec
from hotline_policies.rules.arc import ARC
from hotline_policies.rules.belady import BELADY
from hotline_policies.rules.fifo import FIFO
from hotline_policies.rules.fixed import RANDOM, TOP_K
from hotline_policies.rules.hashed_slots import FIRST_COME, P4_LRU
from hotline_policies.rules.heavy_keeper import HEAVY_KEEPER
from hotline_policies.rules.lfu import LFU
from hotline_policies.rules.lirs import LIRS
from hotline_policies.rules.look_ahead import LOOK_AHEAD
from hotline_policies.rules.lru import LRU
from hotline_policies.rules.s3_fifo import S3_FIFO
from hotline_policies.rules.sieve import SIEVE
from hotline_policies.rules.space_saving import SPACE_SAVING
from hotline_policies.rules.tinylfu import TINYLFU, W_TINYLFU
from hotline_policies.rules.window import WINDOW

POLICIES: tuple[PolicySpec, ...] = (
    BELADY, LOOK_AHEAD, TOP_K, WINDOW, TINYLFU, W_TINYLFU, S3_FIFO, SIEVE, ARC, LIRS, LFU, LRU, FIFO,
    P4_LRU, SPACE_SAVING, HEAVY_KEEPER, FIRST_COME, RANDOM,
)  # fmt: skip
BY_NAME = {spec.name: spec for spec in POLICIES}
