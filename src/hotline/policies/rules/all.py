"""All policies, in the order in which tables have them."""

from __future__ import annotations

from hotline.policies.policy import Kind
from hotline.policies.rules.belady import BELADY
from hotline.policies.rules.chance import RANDOM
from hotline.policies.rules.first_come import FIRST_COME
from hotline.policies.rules.heavy_keeper import HEAVY_KEEPER
from hotline.policies.rules.lfu import LFU
from hotline.policies.rules.lru import LRU
from hotline.policies.rules.p4_lru import P4_LRU
from hotline.policies.rules.space_saving import SPACE_SAVING
from hotline.policies.rules.tinylfu import TINYLFU
from hotline.policies.rules.top_k import TOP_K
from hotline.policies.rules.w_tinylfu import W_TINYLFU
from hotline.policies.rules.window import WINDOW

KINDS: tuple[Kind, ...] = (
    BELADY, TOP_K, WINDOW, TINYLFU, W_TINYLFU, LFU, LRU, P4_LRU, SPACE_SAVING, HEAVY_KEEPER, FIRST_COME,
    RANDOM,
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}
