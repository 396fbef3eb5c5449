"""The site builds, its reference is complete, and two guides do what they say."""

import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import command
import pages
import pytest
from chromium import running_chromium
from torchrun import torchrun

import gradorder
from gradorder import sklearn
from gradorder_lab import theory

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def public_names(module):
    return {name for name in vars(module) if not name.startswith("_")}


def as_built(path):
    """A page with its list of API entries filled in."""
    hooks = pages.loaded("docs_hooks")
    return re.sub(r"<!-- api: .+? -->", lambda found: hooks.on_page_markdown(found[0]), path.read_text())


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


def test_getting_started_ends_with_the_saving_that_it_shows(capsys):
    path = DOCS / "getting_started.md"
    summary = pages.run(path)["sampler"].summary()
    found = [
        re.findall(r"(\w+): ([\d.]+)% with ([\d,]+) gradients$", text, flags=re.MULTILINE)
        for text in (path.read_text(), capsys.readouterr().out)
    ]
    for (name, accuracy, shown), (same_name, measured, printed) in zip(*found, strict=True):
        assert name == same_name
        assert float(measured) == pytest.approx(float(accuracy), abs=1.0)
        assert int(printed.replace(",", "")) == pytest.approx(int(shown.replace(",", "")), rel=0.1)
    assert sum(summary.visited.values()) < 0.95 * 20_000


def test_wrong_labels_are_found():
    report = pages.run(DOCS / "howto" / "mislabelled.md")["report"]
    suspects = report.suspects.tolist()
    assert len([index for index in suspects if index < 100]) > 70  # of 100
    assert len(suspects) < 120


@pytest.mark.slow
def test_the_guide_to_several_processes_runs_on_two(tmp_path):
    counted = "print(sampler.num_replicas, sampler.loader_batch_size, sampler.progress)\n"
    (tmp_path / "train.py").write_text("\n".join([*pages.blocks(DOCS / "howto" / "processes.md"), counted]))
    run = torchrun(tmp_path / "train.py")
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n").count("2 25 1.0") == 2


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


def test_the_search_works_from_disk(site, browser):
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.locator("input[name=query]").press_sequentially("PlackettLuce")
    links = page.locator(".md-search-result__link")
    links.first.wait_for(state="attached", timeout=120_000)  # milliseconds: a busy machine is slow to build the index
    assert any("api/orderings.html" in link.get_attribute("href") for link in links.all())
    page.close()


CUT_OFF = """() => {
  document.querySelectorAll("details").forEach(one => one.open = true);
  const boxes = [...document.querySelectorAll(".md-typeset__scrollwrap")];
  return boxes.filter(box => box.scrollWidth > box.clientWidth).length;
}"""


def test_no_table_is_cut_off_on_a_desk_and_no_page_is_wider_than_a_phone(site, browser):
    desk, phone = (browser.new_page(viewport={"width": width, "height": 900}) for width in (1300, 390))
    for path in sorted([*site.glob("*.html"), *site.glob("howto/*.html")]):
        desk.goto(path.as_uri())
        assert desk.evaluate(CUT_OFF) == 0, path.name
        phone.goto(path.as_uri())
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390, path.name


class Fetched(HTMLParser):
    """The addresses that a browser fetches for a page."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag in {"script", "img", "iframe", "source"}:
            self.addresses.append(attributes.get("src") or "")
        if tag == "link" and attributes.get("rel") != "canonical":
            self.addresses.append(attributes.get("href") or "")


def test_the_site_needs_no_network(site):
    found = sorted(site.rglob("*.html"))
    assert len(found) > 20
    for page in found:
        parser = Fetched()
        parser.feed(page.read_text())
        assert parser.addresses
        assert not [address for address in parser.addresses if re.match(r"(https?:)?//", address)], page
        assert "<!-- table" not in page.read_text()
