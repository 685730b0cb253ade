"""Preserve the files of agents that hold updates when their run ends early.

Moving them takes no disk space. A process can be killed at any point: the next call continues.
"""

from __future__ import annotations

from pathlib import Path

UNREPLAYED_FOLDER = "unreplayed"
"""Folder of a run with the files of its servers, and the replay logs and ledgers of its workers."""
KEYS_FILE = "keys.npy"
_SERVER_FILES = "ps-*.db*"
_FILES = (_SERVER_FILES, "replay-worker-*.bin", "unsettled-*.bin", "ledger-worker-*.bin")
_INCOMPLETE_FOLDER = f"{UNREPLAYED_FOLDER}.moving"


def preserve_agent_files(run: Path) -> bool:
    """Move the files of durable servers and their workers, which have ended; return whether there are any."""
    folder, incomplete = run / UNREPLAYED_FOLDER, run / _INCOMPLETE_FOLDER
    if has_agent_files(run):
        incomplete.mkdir(exist_ok=True)
        if (keys_file := run / "trace" / KEYS_FILE).exists():
            keys_file.rename(incomplete / KEYS_FILE)
        for pattern in _FILES:
            for file in (run / "parts").glob(pattern):
                file.rename(incomplete / file.name)
        incomplete.rename(folder)
    return folder.is_dir()


def has_agent_files(run: Path) -> bool:
    """Return whether a run has files that `preserve_agent_files` has to move."""
    return (run / _INCOMPLETE_FOLDER).is_dir() or any((run / "parts").glob(_SERVER_FILES))
