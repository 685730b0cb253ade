"""CITATION.cff says what the Citation File Format 1.2.0 asks for, and what pyproject.toml says."""

from __future__ import annotations

import re

import pytest
import tomli
import yaml  # type: ignore[import-untyped]  # dask brings PyYAML, which has no types; its stubs would be a package more

from foundation.checkout import ROOT

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
PROJECT = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIRED = {"cff-version", "message", "title", "authors"}
ALLOWED = REQUIRED | {"abstract", "keywords", "license", "references", "type", "version"}
"""Of the keys that the format knows, those that this file has a use for: a misspelt one is an unknown one."""
REQUIRED_OF_A_REFERENCE = {"authors", "title", "type"}


def test_the_file_has_the_required_keys_of_the_format_and_no_unknown_keys() -> None:
    assert set(CITATION) >= REQUIRED
    assert set(CITATION) <= ALLOWED
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software"


@pytest.mark.parametrize("key", ["license", "version"])
def test_version_and_licence_equal_the_projects(key: str) -> None:
    assert CITATION[key] == PROJECT[key]


def test_each_reference_is_complete_and_is_linked_in_a_page() -> None:
    """The README names both papers, so that a citation leads where the pages do."""
    readme = (ROOT / "README.md").read_text()
    for reference in CITATION["references"]:
        assert set(reference) >= REQUIRED_OF_A_REFERENCE
        link = f"https://doi.org/{reference['doi']}" if "doi" in reference else reference["url"]
        assert link in readme


def test_authors_are_people_with_two_names_or_an_entity_with_a_name() -> None:
    people = [each for entry in (CITATION, *CITATION["references"]) for each in entry["authors"]]
    assert people
    for each in people:
        assert set(each) in ({"name"}, {"given-names", "family-names"})
        assert all(re.fullmatch(r"\S(.*\S)?", name) for name in each.values())
