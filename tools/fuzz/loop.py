"""The search: an input that reaches a new edge joins the corpus, whose inputs are mutated further."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from random import Random

from tools.fuzz.edges import Edges
from tools.fuzz.mutation import Mutator
from tools.fuzz.target import MARK, Finding, Refusal, Target, attempt

_MAX_SHRINK_ATTEMPTS = 2_000


class Fuzzer:
    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self.executions = 0
        self.corpus: list[bytes] = []
        """Inputs that reached an edge, or had an outcome, that no earlier input had."""
        self.accepted: list[bytes] = []  # inputs of the corpus that the target did not refuse
        self.findings: dict[tuple[str, str, int], Finding] = {}
        self.slowest = (0.0, b"")
        """Seconds, and the input that took them."""
        self._edges = Edges(target.sources)
        self._known_features: set[int] = set()
        self._outcomes: set[Hashable] = set()
        self._random = Random(seed)
        self._mutator = Mutator(self._random, (*target.tokens, MARK))
        for data in target.inputs():
            self.feed(data)

    @property
    def edges(self) -> int:
        return len(Edges.without_counts(self._known_features))

    def feed(self, data: bytes) -> None:
        outcome, features = self.execute(data)
        if isinstance(outcome, Finding):
            self.findings.setdefault(outcome.place, outcome)
        elif not features <= self._known_features or outcome not in self._outcomes:
            self._known_features |= features
            self._outcomes.add(outcome)
            self.corpus.append(data)
            if not isinstance(outcome, Refusal):
                self.accepted.append(data)

    def execute(self, data: bytes) -> tuple[Hashable | Finding, frozenset[int]]:
        self.executions += 1
        begin = time.perf_counter()
        result = self._edges.record(lambda: attempt(self.target, data))
        self.slowest = max(self.slowest, (time.perf_counter() - begin, data))
        return result

    def search(self, may_continue: Callable[[], bool]) -> None:
        random = self._random
        while self.corpus and may_continue():
            # Recent inputs have been mutated least often, and accepted inputs reach the deepest code.
            recent = self.corpus[-len(self.corpus) // 4 :]
            pool = random.choice([recent, self.accepted or recent, self.corpus])
            # Short inputs run fast, and a mutation of a short input is likelier to have an effect.
            chosen = min(random.choices(pool, k=random.randint(1, 2)), key=len)
            self.feed(self._mutator.mutate(chosen, random.choice(self.corpus)))

    def minimise_corpus(self) -> list[bytes]:
        """Return inputs of the corpus, short ones first, that reach all its edges."""
        covered: set[int] = set()
        inputs = []
        for data in sorted(self.corpus, key=lambda data: (len(data), data)):
            edges = Edges.without_counts(self.execute(data)[1])
            if not edges <= covered:
                covered |= edges
                inputs.append(data)
        return inputs


def shrink(target: Target, finding: Finding) -> Finding:
    """Return the same finding with a shorter input, found by removing pieces."""
    attempts, size = _MAX_SHRINK_ATTEMPTS, max(len(finding.data) // 2, 1)
    while size and attempts:
        offset = 0
        while offset < len(finding.data) and attempts:
            attempts -= 1
            found = attempt(target, finding.data[:offset] + finding.data[offset + size :])
            if isinstance(found, Finding) and found.place == finding.place:
                finding = found
            else:
                offset += size
        size //= 2
    return finding


def within_limits(seconds: float | None, executions: int | None, fuzzer: Fuzzer) -> Callable[[], bool]:
    """Return a function that returns whether a search may continue."""
    end = None if seconds is None else time.monotonic() + seconds
    return lambda: (
        (end is None or time.monotonic() < end) and (executions is None or fuzzer.executions < executions)
    )
