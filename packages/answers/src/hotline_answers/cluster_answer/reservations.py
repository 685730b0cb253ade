"""Reservations about an answer whose costs of hosts were measured while something disturbed them."""

from __future__ import annotations

from analysis.disturbed_blocks import DisturbedBlocks, are_disturbed, withheld_by
from analysis.sentences.answers import costs_withheld
from analysis.sentences.differences import disturbances
from hotline_answers.cluster_answer.ask import ClusterAnswer
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_simulator.costs import sources_of


def withheld_costs(cluster: Cluster) -> DisturbedBlocks | None:
    """Return the first source of the cluster's costs with too many disturbed blocks, or None."""
    return None if cluster.hosts is None else withheld_by(sources_of(cluster.hosts))


def with_reservations(answer: ClusterAnswer) -> ClusterAnswer:
    """Return an answer that concludes nothing from disturbed costs, and names disturbances of others."""
    hosts = answer.cluster.hosts
    if (disturbed := withheld_costs(answer.cluster)) is not None:
        remedy = "Measure them again while nothing else runs on that machine."
        return answer.model_copy(
            update={
                "headline": f"No prediction: {costs_withheld(disturbed)}. {remedy}",
                "sentences": ("The tables have what these costs give, and nothing follows from them.",),
                "rows": "",
            }
        )
    if hosts is None or not are_disturbed(sources := sources_of(hosts)):
        return answer
    found = "; ".join(disturbances(blocks) for blocks in sources if blocks.disturbed)
    return answer.model_copy(
        update={"sentences": (*answer.sentences, f"While the costs were measured: {found}.")}
    )
