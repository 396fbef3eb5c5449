import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hostile_names import HOSTILE, hostile_page

from gradorder_lab import paper
from gradorder_lab.judge.claims import Verdict
from gradorder_lab.runs.summary import Summary
from gradorder_lab.show import writing
from gradorder_lab.show.evidence import Evidence
from gradorder_lab.show.page import page_of

VOID = {"meta", "br", "img", "input", "link", "hr", "rect", "line", "circle"}


class Parsed(HTMLParser):
    """Every element with its attributes, the text inside each, and whether all tags close in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.is_nested = [], [], True
        # All text in order, and which pieces of it are inside an element: joined only for those that are asked for.
        self.pieces, self.first, self.end = [], [], {}
        self.feed(text)
        self.is_nested &= not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.first.append(len(self.pieces))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag):
        if tag not in VOID:
            number = self.open.pop()
            self.end[number] = len(self.pieces)
            self.is_nested &= self.elements[number][0] == tag

    def handle_data(self, data):
        self.pieces.append(data)

    def text(self, number):
        return "".join(self.pieces[self.first[number] : self.end.get(number, self.first[number])])

    def all(self, tag, **attributes):
        """The texts and attributes of the elements with this tag that have these attributes."""
        return [
            (self.text(number), found)
            for number, (name, found) in enumerate(self.elements)
            if name == tag and all(found.get(key) == value for key, value in attributes.items())
        ]

    @property
    def figure_data(self):
        ((text, _),) = self.all("script", id="data")
        return json.loads(text)

    def row(self, claim):
        ((text, attributes),) = self.all("tr", id=f"claim-{claim}")
        return text, attributes["data-verdict"]

    def figure(self, name):
        ((text, _),) = self.all("figure", id=f"fig-{name}")
        return text


def written(summary, out):
    return writing.write(page_of(summary), out).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def claims(full_summary):
    return paper.claims(full_summary)


@pytest.fixture(scope="module")
def page(full_summary):
    """What is on the full page."""
    return page_of(full_summary)


@pytest.fixture(scope="module")
def full_text(full_summary, tmp_path_factory):
    return written(full_summary, tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def full(full_text):
    return Parsed(full_text)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return Parsed(written(Summary({}), tmp_path_factory.mktemp("empty")))


@pytest.fixture(scope="module")
def without_iris(summary_without_iris, tmp_path_factory):
    return Parsed(written(summary_without_iris, tmp_path_factory.mktemp("partial")))


def test_it_is_one_file_below_3_megabytes(full_summary, tmp_path):
    path = writing.write(page_of(full_summary), tmp_path / "made" / "on the way")
    assert path == tmp_path / "made" / "on the way" / "index.html"
    assert [file.name for file in path.parent.iterdir()] == ["index.html"]
    assert path.stat().st_size < 3e6


def test_it_asks_nothing_of_the_network(full):
    for tag, attributes in full.elements:
        assert tag not in {"link", "iframe", "img", "object", "base"}
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    ((_, policy),) = full.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy["content"].startswith("default-src 'none';")
    assert "http" not in policy["content"]


def test_every_tag_closes_in_order(full, empty, without_iris):
    assert full.is_nested
    assert empty.is_nested
    assert without_iris.is_nested


def test_ids_are_unique_and_every_link_leads_somewhere(full, empty, without_iris):
    for page in (full, empty, without_iris):
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        links = {attributes["href"] for _, attributes in page.elements if "href" in attributes}
        assert {link.removeprefix("#") for link in links} <= set(ids)
        labels = {attributes["aria-labelledby"] for _, attributes in page.elements if "aria-labelledby" in attributes}
        assert labels <= set(ids)


def test_every_claim_has_one_row_in_order(full, empty):
    for page in (full, empty):
        rows = [attributes["data-claim"] for _, attributes in page.elements if "data-claim" in attributes]
        assert list(dict.fromkeys(rows)) == [f"C{number}" for number in range(1, 14)]
        assert rows.count("C12") == 3
        assert len(rows) == 15


def test_a_row_has_the_verdict_and_the_numbers_of_its_claim(full, page):
    for row in page.claims:
        text, verdict = full.row(row.claim.name)
        text = " ".join(text.split())
        assert verdict == row.claim.verdict
        count = row.claim.count
        for told in (row.claim.text, row.claim.note, row.where):
            assert " ".join(told.split()) in text
        assert not count.judged or f"{count.holds} of {count.judged}" in text
        assert ("at reduced size" in text) == (row.claim.is_reduced and count.judged > 0)


def test_a_row_links_to_its_figures(full, page, full_summary):
    links = {attributes.get("href") for _, attributes in full.elements}
    for row in page.claims:
        experiments = [one for one in paper.EXPERIMENTS.values() if row.claim.name in one.claims]
        assert {figure.name for one in experiments for figure in one.figures(full_summary)} <= set(row.figures)
        assert {f"#fig-{name}" for name in row.figures} <= links


def test_every_cell_stands_in_the_table_and_in_the_list_with_its_outcome(full, claims):
    for claim in claims:
        words = [
            f"{outcome}: {cell.untested}" if cell.untested else outcome for cell, outcome in claim.outcomes.items()
        ]
        shown = Evidence.of(claim, claim.cells[0])
        text = full.row(claim.name)[0]
        assert all(told in text for told in (shown.part, shown.compared, shown.effect, shown.interval, shown.of_what))
        assert f"The numbers of all {len(words)} cells" in text
    every = [cell for claim in claims for cell in claim.cells]
    cells = [one for one in full.all("td") if one[1].get("class", "").startswith("outcome")]
    assert len(cells) == 2 * len(every)
    listed = [text for text, attributes in cells if "title" not in attributes]
    assert sorted(listed) == sorted(
        f"{outcome}: {cell.untested}" if cell.untested else str(outcome)
        for claim in claims
        for cell, outcome in claim.outcomes.items()
    )


def test_the_shipped_verdict_on_the_same_cells_stands_beside_it(summary_without_iris, full_summary):
    page = page_of(summary_without_iris, shipped_runs=full_summary)
    shown = Parsed(writing.render_page(page))
    for row in page.claims:
        assert row.shipped_text in " ".join(shown.row(row.claim.name)[0].split())
        assert {cell.key for cell in row.shipped.cells} == {one.key for one in row.claim.cells if not one.is_missing}
        assert row.agreement.alike == row.agreement.decided  # the same runs
    assert not any("iris" in cell.part for cell in page.claims[1].shipped.cells)
    assert "partly by construction" in shown.all("section", id="verdicts")[0][0]


def test_every_figure_is_there_with_its_controls(full, full_summary, page):
    ours = [figure for one in paper.EXPERIMENTS.values() for figure in one.figures(full_summary)]
    figures = page.figures
    assert list(full.figure_data["figures"]) == [figure.name for figure in figures]
    assert {figure.name for figure in ours} < {figure.name for figure in figures}
    for figure in figures:
        text = full.figure(figure.name)
        assert figure.caption in text
        for label in ("logarithmic", "linear", "against random", "SVG", "PNG", "CSV", *figure.x_labels.values()):
            assert label in text
    assert len(full.all("option")) == sum(3 + len(figure.x_labels) for figure in figures)
    assert "missing" not in {word for text, _ in full.all("figure") for word in text.lower().split()}


def test_the_paper_s_figures_stand_in_its_order_under_its_names(full, empty):
    numbers = [f"Figure {number}" for number in range(1, 40) if number != 9]
    for page in (full, empty):
        titles = [attributes["aria-label"] for _, attributes in page.all("figure")]
        counterparts = [title.split(". ")[0] for title in titles if re.match(r"(Figure \w+|Table)\. ", title)]
        expected = [*numbers[:7], "Table", "Table", numbers[7], "Figure 9a", "Figure 9b", *numbers[8:]]
        assert counterparts == expected
    for name, title in (
        ("synthetic", "Figure 1. Synthetic Data"),
        ("selection-shown", "Figure 4. Data Selection S = 0.8, q = 0.5"),
        ("selection-boston-literal-constant", "Figure 12. Boston Housing, constant step size"),
        ("fashion-mnist-first-test", "Figure 23. Test Accuracy for Fashion MNIST, sort first"),
        (
            "cifar100-within-from-50-zoomed",
            "Figure 39. CIFAR-100 RESNET18: Start Ordering at Epoch 100, From Epoch 70, sort within",
        ),
    ):
        assert full.all("figure", id=f"fig-{name}")[0][1]["aria-label"] == title


def test_panels_in_the_text_are_those_of_the_appendix(full):
    figures = full.figure_data["figures"]
    for panel, data in zip(
        figures["selection-shown"]["panels"], ("synthetic", "iris-literal", "boston-literal"), strict=True
    ):
        assert panel["curves"] == figures[f"selection-{data}-decreasing"]["panels"][7]["curves"]
    late = [panel["curves"] for panel in figures["cifar-late"]["panels"]]
    assert late[1] == figures["cifar100-first-from-70"]["panels"][0]["curves"]
    assert late[2] == figures["cifar10-first-from-70"]["panels"][1]["curves"]


def test_the_cifar_table_is_missing_with_its_command(empty):
    for data in ("cifar10", "cifar100"):
        assert f"gradorder reproduce {data} --size cpu" in empty.figure(f"{data}-table")


def test_curves_in_the_data_are_those_of_the_figures(full, full_summary):
    data = full.figure_data
    figure = paper.EXPERIMENTS["boston"].figures(full_summary)[1]
    for panel, drawn in zip(figure.panels, data["figures"]["boston-scaled"]["panels"], strict=True):
        assert drawn["title"] == panel.title
        for curve, line in zip(panel.curves, drawn["curves"], strict=True):
            assert (line["label"], line["seeds"]) == (curve.label, 5)
            np.testing.assert_allclose(data["arrays"][line["mean"]], curve.band.mean, rtol=1e-4)
            np.testing.assert_allclose(data["arrays"][line["low"]], curve.band.low, rtol=1e-4)
            np.testing.assert_allclose(data["arrays"][line["high"]], curve.band.high, rtol=1e-4)
            np.testing.assert_allclose(data["arrays"][line["x"]["cost"]], curve.x["cost"])
            assert line["label"] in data["styles"]


def test_what_is_missing_is_shown_with_the_command_that_fills_it(without_iris):
    command = "gradorder reproduce iris --size cpu"
    for name in ("iris-literal", "iris-scaled"):
        assert command in without_iris.figure(name)
        assert "Missing: none of its runs" in without_iris.figure(name)
    assert "issing" not in without_iris.figure("boston-scaled")
    text, verdict = without_iris.row("C2")
    assert verdict != Verdict.NOT_TESTED  # the verdict on what was run
    assert "missing" in text
    assert command in text
    ((runs, _),) = without_iris.all("section", id="provenance")
    assert f"0 of {len(paper.EXPERIMENTS['iris'].recipes('cpu'))}" in runs


def test_a_figure_with_some_curves_names_the_others(full_summary):
    recipes = [recipe for recipe in paper.EXPERIMENTS["synthetic"].recipes("cpu") if recipe.ordering != "flip-flop"]
    found = {name: runs for name, runs in full_summary.recipes.items() if '"flip-flop"' not in name}
    page = Parsed(writing.render_page(page_of(Summary(found))))
    text = page.figure("synthetic")
    assert "gradorder reproduce synthetic --size cpu" in text
    assert "1/(1+t): flip-flop" in text
    assert len(page.figure_data["figures"]["synthetic"]["panels"][0]["curves"]) == 5
    ((runs, _),) = page.all("section", id="provenance")
    assert f"{len(recipes)} of {len(paper.EXPERIMENTS['synthetic'].recipes('cpu'))}" in runs


def test_seeds_that_no_two_methods_share_leave_all_experiments_to_be_run(full_summary):
    recipes = dict(full_summary.recipes)
    apart = {name: replace(runs, seeds=runs.seeds + 10 * number) for number, (name, runs) in enumerate(recipes.items())}
    page = Parsed(writing.render_page(page_of(Summary(apart))))
    assert "gradorder reproduce synthetic iris boston --size cpu" in page.row("C2")[0]


def test_nothing_run_is_a_page_too(empty):
    assert {attributes["data-verdict"] for _, attributes in empty.elements if "data-verdict" in attributes} == {
        "not tested"
    }
    assert empty.all("div", **{"class": "plot"}) == []
    assert all("gradorder reproduce" in text for text, _ in empty.all("figure"))


def test_provenance_shows_environments_and_seeds(full):
    ((text, _),) = full.all("section", id="provenance")
    for word in ("torch", "2.6", "a <b>bold</b> one", "mini", "42 of 42", "gradorder reproduce synthetic --size cpu"):
        assert word in text


def test_hashes_of_the_data_are_shown_or_missed(full, full_summary):
    ((text, _),) = full.all("section", id="provenance")
    assert "Missing: the hashes of the data" in text
    known = replace(full_summary, environments=({"sha256 of iris literal": "0123456789abcdef"},))
    ((text, _),) = Parsed(writing.render_page(page_of(known))).all("section", id="provenance")
    assert "0123456789abcdef" in text
    assert "hashes of the data" not in text


def test_the_answer_stands_first_in_three_sentences(full, page):
    ((text, _),) = full.all("div", id="answer")
    assert [line.strip() for line in text.strip().splitlines()] == list(page.answer)
    ids = [attributes["id"] for _, attributes in full.elements if "id" in attributes]
    assert ids.index("answer") < ids.index("verdicts") < ids.index("claim-C1")


def test_a_claim_is_one_line_with_a_few_words_and_where_it_holds(full, page):
    lines = [" ".join(text.split()) for text, _ in full.all("summary", **{"class": "line"})]
    for line, row in zip(lines, page.claims, strict=True):
        assert line.startswith(f"{row.claim.name} {row.claim.brief} {row.claim.verdict} ")
        assert row.claim.brief != row.claim.text
        assert line.endswith(" ".join(row.where.split()))


def test_hostile_strings_stay_text(full_summary, full):
    whole = writing.render_page(hostile_page(full_summary))
    page = Parsed(whole)
    assert page.is_nested
    assert len(page.all("script")) == len(full.all("script")) == 3
    assert page.all("img") == []
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.row("C1")[0].count(HOSTILE) >= 5
    assert [figure["aria-label"] for _, figure in page.all("figure")] == [HOSTILE, HOSTILE]
    data = page.figure_data
    assert data["figures"]["hostile"]["title"] == HOSTILE
    assert data["figures"]["hostile"]["panels"][0]["curves"][0]["label"] == HOSTILE
    raw = re.search(r'id="data">(.*?)</script>', whole, re.DOTALL).group(1)
    assert "<" not in raw


def test_a_failed_write_leaves_the_old_page_and_no_litter(tmp_path, monkeypatch):
    path = writing.write(page_of(Summary({})), tmp_path)
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr(writing.Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        writing.write(page_of(Summary({})), tmp_path)
    assert path.read_text(encoding="utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["index.html"]


def test_the_page_is_written_beside_and_then_moved(tmp_path, monkeypatch):
    moved = []
    move = writing.Path.replace

    def watched(source, target):
        moved.append((source.parent, source.stat().st_size, target.exists()))
        return move(source, target)

    monkeypatch.setattr(writing.Path, "replace", watched)
    path = writing.write(page_of(Summary({})), tmp_path)
    assert moved == [(tmp_path, path.stat().st_size, False)]


def test_controls_and_tables_are_labelled(full):
    for _, attributes in full.all("button"):
        assert "aria-label" in attributes
    assert len(full.all("label")) == len(full.all("select"))
    assert all("scope" in attributes for _, attributes in full.all("th"))
    assert len(full.all("main")) == len(full.all("h1")) == len(full.all("noscript")) == 1
    assert all("aria-label" in attributes for _, attributes in full.all("nav"))
