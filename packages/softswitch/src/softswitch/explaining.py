"""The subcommand `softswitch explain`, for a program and for a network."""

from __future__ import annotations

from softswitch.explain import cli


def explain_network(request: cli.NetworkRequest) -> None:
    # Imported on demand, as networks take longer to import than all else that explains a program.
    from softswitch.network.explained_route import print_route

    print_route(request)


def main(arguments: list[str]) -> None:
    cli.main(arguments, explain_network)
