"""Print the test modules that changed files can affect, for `make test-changed`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click

from foundation.checkout import ROOT
from tools.affected.uses import Checkout


def git(*arguments: str) -> list[str]:
    """Return the lines that a command of git prints about the checkout."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise click.ClickException(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


@click.command()
@click.option("--since", default="HEAD", show_default=True, help="Commit that the files are compared with.")
def main(since: str) -> None:
    """Print the test modules that changes since a commit can affect, with uncommitted and new files."""
    untracked = git("ls-files", "--others", "--exclude-standard")
    # A renamed file counts twice: something may still use it by its old name.
    changed = {*git("diff", "--name-only", "--no-renames", since, "--"), *untracked}
    if not changed:
        raise click.ClickException(f"no file differs from {since}: name an earlier commit with --since")
    checkout = Checkout(ROOT, map(Path, {*git("ls-files"), *changed}))
    tests = checkout.affected_tests(map(Path, changed))
    click.echo(f"{len(changed)} files changed; {len(tests)} of {len(checkout.tests)} test modules", err=True)
    for test in sorted(tests):
        click.echo(test)


if __name__ == "__main__":
    main()
