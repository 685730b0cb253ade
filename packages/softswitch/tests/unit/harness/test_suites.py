"""The table of suites of others."""

from __future__ import annotations

from switch_harness import finsy_examples
from switch_harness.ptf_suites import verdicts
from switch_harness.suites import Suite


def test_a_row_has_the_counts_and_the_names_of_tests_that_do_not_pass_everywhere() -> None:
    results = {"BMv2": {"a": True, "b": True, "c": False}, "softswitch": {"a": True, "b": False}}
    assert list(Suite("theirs", results).rows()) == [
        "| theirs | 3 | 2 | 1 |",
        "  b: BMv2 passes, softswitch fails",
        "  c: BMv2 fails, softswitch does not run",
    ]


PTF = """\
2026-11-25 16:47:57 - root - INFO - *** TEST RUN START
demo.FwdTest ... ok
demo.Slow ... 2026-11-25 16:51:48 - root - INFO - 0 entries
ERROR
demo.BadOptions
About options. ... FAIL

======================================================================
ERROR: demo.Slow
----------------------------------------------------------------------
FAIL: demo.BadOptions
----------------------------------------------------------------------
Ran 3 tests in 4.587s
"""


def test_each_test_of_a_ptf_run_has_its_verdict() -> None:
    assert verdicts(PTF) == {"demo.FwdTest": True, "demo.Slow": False, "demo.BadOptions": False}


def test_a_ptf_run_without_a_summary_of_all_its_tests_has_failed() -> None:
    for printed in (PTF.partition("Ran")[0], PTF.replace("Ran 3", "Ran 4"), ""):
        assert verdicts(printed) == {"runptf.sh": False}


def test_a_junit_report_is_read_without_skipped_tests() -> None:
    report = """<testsuites><testsuite>
        <testcase classname="tests.test_hello" name="test_demo1"/>
        <testcase classname="tests.test_hello" name="test_demo2"><failure/></testcase>
        <testcase classname="tests.test_hello" name="test_demo3"><error/></testcase>
        <testcase classname="tests.test_hello" name="test_graph_dot"><skipped/></testcase>
        </testsuite></testsuites>"""
    assert finsy_examples.verdicts(report) == {
        "test_hello.test_demo1": True,
        "test_hello.test_demo2": False,
        "test_hello.test_demo3": False,
    }
