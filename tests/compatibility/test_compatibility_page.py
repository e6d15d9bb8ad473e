"""The table of docs/reference/compatibility.md is what its data render to. The data come from `make compatibility`
alone."""

from __future__ import annotations

from tests.compatibility import page
from tests.compatibility.clients import CLIENTS
from tests.compatibility.features import SECTIONS
from tests.compatibility.suites import SUITES
from tests.compatibility.tools import TOOLS, run


def test_the_table_is_what_its_data_render_to_and_knows_every_client_and_feature() -> None:
    known = page.load()
    assert page.PAGE.read_text() == page.render(known), "run `make compatibility`"
    features = [each.name for section in SECTIONS.values() for each in section]
    assert len(features) == len(set(features))
    assert list(known) == sorted([run.NAME, *SUITES, *(kind.name for kind in CLIENTS)])
    for name, trial in known.items():
        if name not in SUITES:  # whose tests only the suites themselves know
            expected = [tool.name for tool in TOOLS] if name == run.NAME else features
            assert [cell.feature for cell in trial.cells] == expected, name


def test_no_page_names_the_directory_of_the_checkout() -> None:
    place = str(page.DOCS.parents[1])
    assert page.without_place(f"cannot read '{place}/.cache/x'") == "cannot read '.cache/x'"
    assert [path.name for path in (page.DATA, page.PAGE) if "/.cache/" in path.read_text()] == []


def test_what_is_known_of_failures_of_clients_own_tests_is_of_tests_that_were_run() -> None:
    known = page.load()
    for name, suite in SUITES.items():
        cells = {cell.feature: cell for cell in known[name].cells}
        assert set(suite.known) <= set(cells), name
        stale = [test for test, found in suite.known.items() if cells[test].state not in (found.state, "passed")]
        assert stale == [], name


def test_no_cell_of_the_table_failed_without_being_explained() -> None:
    """A failure stays in the table only as long as nobody knows whose it is: none is merged."""
    failed = [
        f"{trial.client}: {cell.feature}: {cell.reason}"
        for trial in page.load().values()
        for cell in trial.cells
        if cell.state == "failed" or (cell.state != "passed" and not cell.reason)
    ]
    assert failed == []
