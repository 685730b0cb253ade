"""All policies, in the order in which tables have them."""

from __future__ import annotations

from policies.policy import Kind
from policies.rules.belady import BELADY
from policies.rules.chance import RANDOM
from policies.rules.first_come import FIRST_COME
from policies.rules.heavy_keeper import HEAVY_KEEPER
from policies.rules.lfu import LFU
from policies.rules.lru import LRU
from policies.rules.p4_lru import P4_LRU
from policies.rules.space_saving import SPACE_SAVING
from policies.rules.tinylfu import TINYLFU
from policies.rules.top_k import TOP_K
from policies.rules.w_tinylfu import W_TINYLFU
from policies.rules.window import WINDOW

KINDS: tuple[Kind, ...] = (
    BELADY, TOP_K, WINDOW, TINYLFU, W_TINYLFU, LFU, LRU, P4_LRU, SPACE_SAVING, HEAVY_KEEPER, FIRST_COME,
    RANDOM,
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}
