"""The test run counts what really ran: anything that did not pass is a failure."""

from pathlib import Path

import pytest
import run_tests
from run_tests import Count

CTEST_CASE = '<testcase name="a" classname="a" time="0.1" status="{status}">{mark}</testcase>'


def report(folder: Path, *cases: str) -> Path:
    path = folder / "report.xml"
    path.write_text(f'<testsuite name="s">{"".join(cases)}</testsuite>')
    return path


@pytest.mark.parametrize(
    ("status", "mark", "counted"),
    [
        ("run", "", Count(passed=1)),
        ("fail", '<failure message="Segfault"/>', Count(failed=1)),
        ("notrun", '<skipped message="Unable to find executable"/>', Count(failed=1)),
        ("disabled", "", Count(failed=1)),
    ],
)
def test_ctest_cases(tmp_path: Path, status: str, mark: str, counted: Count) -> None:
    case = CTEST_CASE.format(status=status, mark=mark)
    assert run_tests.count_junit(report(tmp_path, case), counted.failed) == counted


@pytest.mark.parametrize(
    ("mark", "counted"),
    [
        ("", Count(passed=1)),
        ('<failure message="assert"/>', Count(failed=1)),
        ('<error message="collection"/>', Count(failed=1)),
        ('<skipped message="no reason is good enough"/>', Count(failed=1)),
    ],
)
def test_pytest_cases(tmp_path: Path, mark: str, counted: Count) -> None:
    path = report(tmp_path, f'<testcase name="a">{mark}</testcase>')
    assert run_tests.count_junit(path, counted.failed) == counted


def test_a_runner_that_failed_after_its_cases_passed_is_a_failure(tmp_path: Path) -> None:
    path = report(tmp_path, CTEST_CASE.format(status="run", mark=""))
    assert run_tests.count_junit(path, 1) == Count(passed=1, failed=1)


def test_a_suite_without_cases_is_a_failure(tmp_path: Path) -> None:
    assert run_tests.count_junit(report(tmp_path), 0) == Count(failed=1)


def test_a_missing_or_cut_report_is_a_failure(tmp_path: Path) -> None:
    assert run_tests.count_junit(tmp_path / "none.xml", 0) == Count(failed=1)
    cut = tmp_path / "cut.xml"
    cut.write_text("<testsuite><testcase")
    assert run_tests.count_junit(cut, 0) == Count(failed=1)


def test_colours_in_a_message_do_not_break_a_report(tmp_path: Path) -> None:
    failed = '<testcase name="b"><failure message="\x1b[2mtimeout\x1b[22m"/></testcase>'
    path = report(tmp_path, '<testcase name="a"/>', failed)
    assert run_tests.count_junit(path, 1) == Count(passed=1, failed=1)


def test_an_unknown_suite_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main(["unti"]) == 2
    assert "unit" in capsys.readouterr().err
