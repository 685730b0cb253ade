"""A trace with a damaged file is refused: no flipped key or setting reaches the workers."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from foundation.checksums import crc32_of
from foundation.errors import DataError
from hosts.agent_config import AgentConfigError
from hosts.keys import KeySpace
from hosts.unreplayed import KEYS_FILE
from hosts.workload import data_files
from hosts.workload.trace import Samples, Trace
from switch_harness.damage import DAMAGES, damage
from switch_harness.wording import mentions

SET = "+1 7:1 5000000000:0.5\n-1 9:2\n1 7:1 18446744073709551000:3\n-1 9:1\n"
OTHER_SET = "-1 8:1 9:3\n1 11:1 5000000000:0.25\n-1 9:1\n1 12:5\n-1 7:1\n1 13:1\n"
META = "trace.json"


def save(folder: Path, text: str) -> Trace:
    """Save the trace of a training set with sparse keys and features with values, which has all columns."""
    (folder / "set").write_text(text)
    trace = data_files.load_training_set(folder / "set", workers=2, samples_per_step=1)
    trace.save(folder / "trace")
    return trace


def content_of(trace: Trace) -> list[object]:
    samples = trace.samples
    assert samples is not None and samples.x is not None and trace.space.sparse is not None
    columns = [getattr(samples, each.name) for each in fields(Samples)]
    columns += [trace.key_start, trace.position, trace.space.sparse]
    settings = [trace.name, trace.workers, trace.steps, trace.profile_steps, trace.space.ranges]
    return [*settings, *(np.asarray(column).tolist() for column in columns)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a trace."""
    save(tmp_path, SET)
    return tmp_path / "trace"


@pytest.mark.parametrize("way", DAMAGES)
def test_a_trace_with_any_damaged_file_is_an_error_that_names_the_trace(
    folder: Path, tmp_path: Path, way: str
) -> None:
    (tmp_path / "other").mkdir()
    save(tmp_path / "other", OTHER_SET)
    names = sorted(file.name for file in folder.iterdir())
    assert len(names) == 3 + len(fields(Samples)) + 1  # columns of the trace and its samples, and metadata
    for name in names:
        if (name, way) == (META, "without its last byte"):
            continue  # the end of its line, which has no meaning
        damaged = tmp_path / "damaged"
        shutil.copytree(folder, damaged)
        damage(damaged / name, way, (tmp_path / "other" / "trace" / name).read_bytes())
        with pytest.raises(DataError, match=mentions(str(damaged))) as error:
            Trace.load(damaged)
        # The metadata of another trace are whole, but the columns do not have its checksums.
        assert name in str(error.value) or (name, way) == (META, "another file's content")
        shutil.rmtree(damaged)


def test_no_flipped_bit_of_a_trace_changes_the_trace_that_is_loaded(folder: Path) -> None:
    expected = content_of(Trace.load(folder))
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        for position in range(len(content)):
            flipped = bytearray(content)
            flipped[position] ^= 1 << position % 8
            file.write_bytes(flipped)
            try:
                loaded = Trace.load(folder)
            except DataError:
                continue
            # Blanks between the fields of the metadata have no meaning.
            assert file.name == META and content_of(loaded) == expected, (file.name, position)
        file.write_bytes(content)
    assert content_of(Trace.load(folder)) == expected


@pytest.mark.parametrize("way", DAMAGES)
def test_a_damaged_file_of_keys_is_refused_by_servers_and_by_recover(
    folder: Path, tmp_path: Path, way: str
) -> None:
    """Both map the file without the rest of the trace."""
    file = folder / KEYS_FILE
    checksum = crc32_of(file)
    (tmp_path / "other").mkdir()
    save(tmp_path / "other", OTHER_SET)
    damage(file, way, (tmp_path / "other" / "trace" / KEYS_FILE).read_bytes())
    with pytest.raises(AgentConfigError, match=mentions(str(file))):
        KeySpace.load(file, checksum)


def test_a_file_of_keys_with_any_flipped_bit_is_refused(folder: Path) -> None:
    file = folder / KEYS_FILE
    content, expected = file.read_bytes(), np.load(file).tolist()
    checksum = crc32_of(file)
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        with pytest.raises(AgentConfigError):
            KeySpace.load(file, checksum)
    file.write_bytes(content)
    assert KeySpace.load(file, checksum).all().tolist() == expected


def test_metadata_without_checksums_are_refused(folder: Path) -> None:
    """A trace of an earlier version, or metadata that another program has written."""
    file = folder / META
    meta = json.loads(file.read_text())
    for removed in ({"crc32"}, {"files"}, {"crc32", "files"}):
        file.write_text(json.dumps({name: value for name, value in meta.items() if name not in removed}))
        with pytest.raises(DataError, match=mentions(str(folder), META)):
            Trace.load(folder)
