"""All policies, in the order in which tables have them."""

from __future__ import annotations

from studies.policies.policy import Kind
from studies.policies.rules.belady import BELADY
from studies.policies.rules.chance import RANDOM
from studies.policies.rules.first_come import FIRST_COME
from studies.policies.rules.heavy_keeper import HEAVY_KEEPER
from studies.policies.rules.lfu import LFU
from studies.policies.rules.lru import LRU
from studies.policies.rules.p4_lru import P4_LRU
from studies.policies.rules.space_saving import SPACE_SAVING
from studies.policies.rules.tinylfu import TINYLFU
from studies.policies.rules.top_k import TOP_K
from studies.policies.rules.w_tinylfu import W_TINYLFU
from studies.policies.rules.window import WINDOW

KINDS: tuple[Kind, ...] = (
    BELADY, TOP_K, WINDOW, TINYLFU, W_TINYLFU, LFU, LRU, P4_LRU, SPACE_SAVING, HEAVY_KEEPER, FIRST_COME,
    RANDOM,
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}
