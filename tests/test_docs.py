import importlib.util
import json
import re
import runpy
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import command
import pytest
import svg
from benchmark_rows import rows_of
from chromium import running_chromium
from torchrun import torchrun

import gradorder
from gradorder import sklearn
from gradorder.orderings import Ordering
from gradorder.selection import Selection
from gradorder_lab import paper, theory
from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.rows import read_rows, write_rows
from gradorder_lab.benchmark.suites import ALL
from gradorder_lab.methods import METHODS
from gradorder_lab.runs.shipped import read_table

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def loaded(script, folder="scripts"):
    spec = importlib.util.spec_from_file_location(script, ROOT / folder / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def public_names(module):
    return {name for name, value in vars(module).items() if not name.startswith("_")}


def public_classes(kind):
    """What `gradorder` exports of a kind: subclasses of a base, or the classes of a subpackage."""
    classes = {name: value for name, value in vars(gradorder).items() if isinstance(value, type)}
    if isinstance(kind, str):
        return {name for name, value in classes.items() if value.__module__.startswith(kind)}
    return {name for name, value in classes.items() if issubclass(value, kind) and value is not kind}


KINDS = {"orderings": Ordering, "selections": Selection, "scores": "gradorder.scores"}


def as_built(path):
    """A page with what the lists stand for filled in."""
    hooks = loaded("docs_hooks")
    return re.sub(r"<!-- (cards|api): .+? -->", lambda found: hooks.on_page_markdown(found[0]), path.read_text())


CARDS = {name: as_built(DOCS / "cards" / f"{name}.md") for name in KINDS}


@pytest.mark.parametrize("page", KINDS)
def test_every_public_class_of_a_kind_has_a_card_and_nothing_else_has(page):
    expected = public_classes(KINDS[page])
    assert len(expected) >= 4
    assert set(re.findall(r"^## (\w+)$", CARDS[page], flags=re.MULTILINE)) == expected
    assert set(re.findall(r"^::: gradorder\.(\w+)$", CARDS[page], flags=re.MULTILINE)) == expected


def test_every_public_name_is_in_the_api_reference():
    from gradorder.integrations import accelerate, lightning, transformers, trl  # noqa: PLC0415 - they take seconds

    text = "\n".join(as_built(path) for path in sorted((DOCS / "api").glob("*.md")))
    shown = re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)
    assert len(shown) == len(set(shown))
    submodules = {name for name in public_names(gradorder) if isinstance(getattr(gradorder, name), ModuleType)}
    expected = {f"gradorder.{name}" for name in public_names(gradorder) - submodules}
    assert expected == {f"gradorder.{name}" for name in gradorder.__all__}
    for module in (theory, sklearn):
        source = Path(module.__file__).read_text()
        expected |= {f"{module.__name__}.{name}" for name in re.findall(r" as (\w+)$", source, flags=re.MULTILINE)}
    for module in (accelerate, lightning, transformers, trl):
        own = {
            name for name in public_names(module) if getattr(vars(module)[name], "__module__", "") == module.__name__
        }
        expected |= {f"{module.__name__}.{name}" for name in own - {"OrderedLoader"}}
    assert expected <= set(shown)


def test_the_committed_pictures_are_those_that_the_command_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pictures.py", "--out", str(tmp_path)])
    runpy.run_path(ROOT / "scripts" / "pictures.py", run_name="__main__")
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text() for path in (DOCS / "pictures").iterdir()}
    assert drawn.keys() == committed.keys()
    changed = [name for name in drawn if not svg.is_same(drawn[name], committed[name])]
    assert not changed, "run `make generated`: the results have changed, or the way they are drawn"


def test_what_is_said_of_the_results_is_what_the_command_writes():
    generated = loaded("generated")
    text = "\n".join(path.read_text() for path in generated.DOCUMENTS)
    names = re.findall(r"^<!-- (\w+) -->$", text, flags=re.MULTILINE)
    assert set(names) == {*generated.PARTS, "end"}
    assert len(names) == 2 * names.count("end")
    for path in generated.DOCUMENTS:
        assert generated.filled(path.read_text()) == path.read_text(), "run `make generated`: the results have changed"


def test_the_promise_counts_what_is_cheaper_beyond_noise_and_what_ends_level(tmp_path, monkeypatch):
    generated = loaded("generated")
    monkeypatch.setattr(generated, "RESULTS", tmp_path)
    plain, worse = {0.25: 75.0, 1.0: 77.0}, {0.25: 75.0, 1.0: 76.7}
    found = {"terrain, 2-layer": (worse, 0.6), "mnist, 2-layer": (plain, 1.0), "fashion-mnist, 2-layer": (plain, 0.4)}
    rows = []
    for task, (accuracies, cost) in found.items():
        rows += rows_of("random reshuffling", plain, 5, task=task)
        rows += rows_of("recommended", accuracies, 5, task=task, cost=cost)
    write_rows(rows, tmp_path / "benchmark.parquet")
    other, tuned = [line.split(" | ") for line in generated.promise().splitlines() if "used for tuning" in line]
    assert other[1] == "0 of 1"
    assert tuned[1].startswith("1 of 2: 0.40")
    assert tuned[2].count("on 1") == 2  # one is level, one is worse


def test_the_caveats_name_every_task_that_misses_something(tmp_path, monkeypatch):
    generated = loaded("generated")
    monkeypatch.setattr(generated, "RESULTS", tmp_path)
    plain, worse, little_worse = {0.25: 75.0, 1.0: 77.0}, {0.25: 70.0, 1.0: 76.7}, {0.25: 75.0, 1.0: 76.95}
    rows = []
    for task, ours, cost, slower in (
        ("terrain, 2-layer", worse, 0.6, 1.0),
        ("mnist, 2-layer", plain, 0.5, 1.2),
        ("fashion-mnist, 2-layer", little_worse, 0.4, 1.0),
        ("mnist, 7-layer", plain, 0.5, 2.1),
    ):
        rows += rows_of("random reshuffling", plain, 5, task=task)
        rows += [
            replace(row, processor_seconds=slower * row.processor_seconds)
            for row in rows_of("recommended", ours, 5, task=task, cost=cost)
        ]
    rows += rows_of("GraB mean", plain, task="mnist, 2-layer", cost=0.3)
    rows += rows_of("GraB pairs", plain, task="mnist, 2-layer", cost=0.4)
    rows += rows_of("InfoBatch", plain, task="mnist, 2-layer", cost=0.7)
    write_rows(rows, tmp_path / "benchmark.parquet")
    lines = [line.strip("| ").split(" | ") for line in generated.caveats().splitlines()[2:]]
    said = {line[0]: line[1:] for line in lines}
    assert said.keys() == {"terrain", "mnist, 2-layer", "mnist, 7-layer"}  # not fashion-mnist: within the margin
    assert "−0.30" in said["terrain"][1]
    assert "GraB mean: 0.30" in said["mnist, 2-layer"][2]
    assert "time" not in said["mnist, 2-layer"][2]
    assert "time" in said["mnist, 7-layer"][2]
    assert "1.05" in said["mnist, 7-layer"][2]


def test_the_caveats_say_where_step_sizes_differ(tmp_path, monkeypatch):
    generated = loaded("generated")
    monkeypatch.setattr(generated, "RESULTS", tmp_path)
    plain, worse = {0.25: 75.0, 1.0: 77.0}, {0.25: 75.0, 1.0: 76.0}
    rows = [replace(row, step_size=0.02) for row in rows_of("random reshuffling", plain, 5, task="mnist, 2-layer")]
    rows += [replace(row, step_size=0.05) for row in rows_of("recommended", worse, 5, task="mnist, 2-layer")]
    write_rows(rows, tmp_path / "benchmark.parquet")
    assert re.search(r"0\.05.*0\.02", generated.caveats())


def test_what_too_few_seeds_show_is_not_counted_as_cheaper(tmp_path, monkeypatch):
    generated = loaded("generated")
    monkeypatch.setattr(generated, "RESULTS", tmp_path)
    plain, rows = {0.25: 75.0, 1.0: 77.0}, []
    for task, seeds in (("terrain, 2-layer", 5), ("mnist, 2-layer", 4)):
        rows += rows_of("random reshuffling", plain, seeds, task=task)
        rows += rows_of("recommended", plain, seeds, task=task, cost=0.5)
    write_rows(rows, tmp_path / "benchmark.parquet")
    assert "| 1 of 1: 0.50 to 0.50" in generated.promise()
    assert "| 0 of 1 |" in generated.promise()
    assert "| mnist, 2-layer | no saving beyond noise" in generated.caveats()


def test_every_picture_is_shown_somewhere():
    text = "\n".join(path.read_text() for path in [ROOT / "README.md", *DOCS.rglob("*.md")])
    pictures = list((DOCS / "pictures").iterdir())
    assert pictures
    assert [path.name for path in pictures if f"pictures/{path.name})" not in text] == []


def test_every_table_that_a_page_asks_for_can_be_made():
    hooks = loaded("docs_hooks")
    asked = [name for path in DOCS.rglob("*.md") for name in re.findall(r"<!-- table: (.+?) -->", path.read_text())]
    assert set(asked) == set(hooks.TABLES)
    for name in hooks.TABLES:
        page = hooks.on_page_markdown(f"before\n\n<!-- table: {name} -->\n\nafter", page=None, config=None, files=None)
        assert page.startswith("before\n\n")
        assert "<!--" not in page
        assert len(page) > 50
    with pytest.raises(Exception, match="table"):
        hooks.on_page_markdown("<!-- table: nothing -->")


def test_verdicts_in_the_tables_are_those_of_the_shipped_results():
    lines = [line.split(" | ") for line in loaded("docs_hooks").claims("C2", "C7").splitlines()[2:]]
    claims = {claim.name: claim for claim in paper.claims(read_table(ROOT / "results" / "lab.parquet"))}
    for name, line in zip(("C2", "C7"), lines, strict=True):
        count = claims[name].count
        assert line[1].startswith(f"{claims[name].verdict}, holds in {count.holds} of {count.judged}")


def test_the_tables_of_savings_are_made_from_the_rows(tmp_path, monkeypatch):
    hooks = loaded("docs_hooks")
    monkeypatch.setattr(hooks, "RESULTS", tmp_path)
    plain, worse = {0.25: 75.0, 0.5: 76.0, 1.0: 77.0}, {0.25: 70.0, 1.0: 71.0}
    found = {"random reshuffling": (plain, 1.0), "recommended": (plain, 0.5), "InfoBatch": (worse, 1.0)}
    rows = [
        replace(one, processor_seconds=1.02 * one.processor_seconds) if method == "recommended" else one
        for method, (accuracies, cost) in found.items()
        for one in rows_of(method, accuracies, task="terrain, 2-layer", cost=cost)
    ]
    write_rows(rows, tmp_path / "benchmark.parquet")
    half, level, ahead = "0.50 (0.50 to 0.50)", "+0.00 (+0.00 to +0.00)", "+1.00 (+1.00 to +1.00)"
    time = "0.51 (0.51 to 0.51)"
    *_, line = hooks.savings().splitlines()
    not_worse = "not worse by more than the margin"
    assert line == f"| terrain, 2-layer | 76.90 | 0.50 | 0.51† | {level} | {not_worse} | {ahead} | {half} | {time}† |"
    *_, line = hooks.nearest().splitlines()
    assert line == f"| terrain, 2-layer | {half} | – | – | not reached | – |"
    heading, _, head, _, best, random, last = hooks.benchmark().splitlines()
    assert heading == "**terrain, 2-layer: target 76.90% (77.00 less 0.1), 3 seeds**"
    assert head.startswith("| method | step | time to target | gradients to target | spent |")
    assert best.startswith(f"| recommended | 0.1 | {time}† | {half} | 0.50 | 77.00 | {level} |")
    assert random.startswith("| random reshuffling | 0.1 | 1.00 (1.00 to 1.00) |")
    assert last.startswith("| InfoBatch | 0.1 | not reached | not reached | 1.00 | 71.00 | −6.00 (−6.00 to −6.00) |")


def test_the_shipped_rows_are_of_the_tasks_and_recipes_that_there_are():
    """A table of what is run no longer would be a wrong one."""
    tasks = {task.name: CompareRecipe.settings_of(task) for task in ALL}
    rows = read_rows(ROOT / "results" / "benchmark.parquet")
    for run in rows:
        assert run.revision in {6, CompareRecipe.revision}  # 6: another schedule in parts of an epoch
        assert json.loads(run.settings).items() <= tasks[run.task].items()
        assert run.method in METHODS
    assert len({run.identity for run in rows}) == len(rows)


def test_the_tutorial_runs_on_two_processes(tmp_path):
    page = (DOCS / "tutorial.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    counted = "import sys\nsys.stdout.write(f'{sampler.num_replicas} {sampler.loader_batch_size} {sampler.epoch}\\n')\n"
    (tmp_path / "train.py").write_text("\n".join([f"import os\nos.chdir({str(tmp_path)!r})", *blocks, counted]))
    run = torchrun(tmp_path / "train.py")
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n").count("2 25 3") == 2
    printed, shown = (re.findall(r"(plain|recommended|Algorithm \d): ([\d.]+)%", text) for text in (run.stdout, page))
    assert [name for name, _ in shown] == ["plain", "recommended", "Algorithm 3", "Algorithm 4"]
    assert sorted(name for name, _ in printed) == sorted([name for name, _ in shown] * 2)  # by each process
    for name, accuracy in printed:
        assert float(accuracy) == pytest.approx(float(dict(shown)[name]), abs=1.0)


class Loaded(HTMLParser):
    """What a browser fetches by itself for a page."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag in {"script", "img", "iframe", "source"}:
            self.addresses.append(attributes.get("src") or "")
        if tag == "link" and attributes.get("rel") != "canonical":
            self.addresses.append(attributes.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    run = command.module("mkdocs", "build", "--strict", "--site-dir", out, folder=ROOT)
    assert run.returncode == 0, run.stderr
    return out


@pytest.fixture(scope="module")
def browser():
    with running_chromium() as running:
        yield running


@pytest.mark.parametrize("is_pasted", [False, True], ids=["typed", "pasted"])
def test_the_search_works_from_disk(site, browser, is_pasted):
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    field = page.locator("input[name=query]")
    field.fill("PlackettLuce") if is_pasted else field.press_sequentially("PlackettLuce")
    links = page.locator(".md-search-result__link")
    links.first.wait_for(state="attached", timeout=120_000)  # milliseconds: a busy machine is slow to build the index
    assert any("cards/orderings.html" in link.get_attribute("href") for link in links.all())
    page.close()


CUT_OFF = """() => {
  document.querySelectorAll("details").forEach(one => one.open = true);
  const boxes = [...document.querySelectorAll(".md-typeset__scrollwrap")];
  return boxes.filter(box => box.scrollWidth > box.clientWidth).length;
}"""


def test_no_table_is_cut_off_on_a_desk_and_no_page_is_wider_than_a_phone(site, browser):
    desk, phone = (browser.new_page(viewport={"width": width, "height": 900}) for width in (1300, 390))
    for path in sorted(site.glob("*.html")):
        desk.goto(path.as_uri())
        assert desk.evaluate(CUT_OFF) == 0, path.name
        phone.goto(path.as_uri())
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390, path.name


def test_the_site_needs_no_network(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        parser = Loaded()
        parser.feed(page.read_text())
        assert parser.addresses
        assert not [address for address in parser.addresses if re.match(r"(https?:)?//", address)], page
        assert "<!-- table" not in page.read_text()
    for name in ("orderings", "selections", "scores"):
        text = (site / "cards" / f"{name}.html").read_text()
        assert (
            text.count("<strong>Cost</strong>")
            == text.count("<strong>Reference</strong>")
            == len(public_classes(KINDS[name]))
        )
