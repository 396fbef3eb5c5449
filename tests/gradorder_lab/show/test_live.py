"""The page in a browser while runs are added to the store that it is served from."""

import threading
import time

import numpy as np
import pytest
from chromium import until

from gradorder_lab import paper
from gradorder_lab.commands import serve
from gradorder_lab.commands.progress import ReproductionPlan
from gradorder_lab.paper import far
from gradorder_lab.runs.store import Store

SEEDS = 3


def add_runs(out, *seeds, recipes=None):
    with Store(out) as store:
        for number, recipe in enumerate(recipes or far.far_recipes()):
            for seed in seeds:
                rng = np.random.default_rng((number, seed))
                excess = np.sort(rng.uniform(0.1, 10, 6))[::-1]
                place = np.arange(6.0)
                rows = {
                    "epoch": place,
                    "updates": 32 * place,
                    "scored": 32 * place,
                    "loss": excess + 1,
                    "excess": excess,
                }
                store.add(recipe, seed, rows, 0.1)


@pytest.fixture
def address(tmp_path, monkeypatch):
    """Of a page that never rests."""
    monkeypatch.setattr(serve, "_REST", 0)
    with serve.server(tmp_path, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def served(address, tmp_path):
    """The address of a page of runs, and what is behind it."""
    add_runs(tmp_path, 0)
    ReproductionPlan("mini", {"synthetic-far": SEEDS}, 0).save(tmp_path)
    return address, tmp_path


STATE = """() => {
  const figure = document.querySelector('#fig-synthetic-far');
  const { data, layout } = figure.querySelector('.plot');
  return {
    top: figure.getBoundingClientRect().top,
    axis: figure.querySelector('.axis').value,
    range: layout.xaxis.range,
    hidden: data.filter((trace) => trace.visible === false).length,
    y: data.filter((trace) => !trace.fill).at(-1).y, // not of random, which is zero against itself
  };
}"""


def test_it_grows_without_losing_the_reader_s_place(browser, served):
    address, out = served
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    until(page, "document.getElementById('progress-state').textContent.startsWith('72 of 216 runs finished')")
    assert page.locator("tr[data-experiment=synthetic-far]").inner_text().split("\t")[-1].strip() == "72 of 216"
    page.locator("tr[data-claim=C4] summary.line").click()
    page.locator("tr[data-claim=C4] details.comparisons-of summary").click()
    page.locator("#fig-synthetic-far > details > summary").click()
    until(page, "document.querySelector('#fig-synthetic-far .plot .main-svg') !== null")
    page.locator("#fig-synthetic-far select.axis").select_option("epoch")
    page.locator("#fig-synthetic-far .legend button", has_text="ascending").click()
    page.evaluate("Plotly.relayout(document.querySelector('#fig-synthetic-far .plot'), {'xaxis.range': [1, 3]})")
    page.evaluate("document.activeElement.blur()")
    before = page.evaluate(STATE)
    first_verdict = page.locator("tr[data-claim=C4]").inner_text()

    add_runs(out, 1, 2)
    add_runs(out, 0, recipes=paper.EXPERIMENTS["synthetic-switch"].recipes("mini"))  # above: the page grows there
    until(page, "document.body.dataset.version !== '72'", seconds=120)
    until(page, "document.getElementById('progress-state').textContent === '216 of 216 runs finished: done.'")
    until(page, "document.querySelector('#fig-synthetic-switch .plot') !== null")  # it may come with a later look
    time.sleep(0.5)
    after = page.evaluate(STATE)
    assert after["top"] == pytest.approx(before["top"], abs=3)
    assert after["axis"] == "epoch"
    assert after["range"] == before["range"] == [1, 3]
    assert after["hidden"] == before["hidden"] > 0
    assert after["y"] != before["y"]
    assert page.locator("tr[data-claim=C4]").inner_text() != first_verdict
    assert page.locator("tr[data-claim=C4] details.comparisons-of").get_attribute("open") is not None
    assert page.locator("#benchmark").count() == 0  # it is not one of these runs
    assert page.locator("#fig-synthetic-switch .plot").count() == 1
    assert complaints == []
    page.close()


def test_the_benchmark_goes_when_there_are_runs(browser, address, tmp_path):
    page = browser.new_page()
    page.goto(address)
    assert page.locator("#benchmark").count() == page.locator("a[href='#benchmark']").count() == 1
    add_runs(tmp_path, 0)
    until(page, "document.body.dataset.version !== 'shipped'", seconds=120)
    assert page.locator("#benchmark").count() == page.locator("a[href='#benchmark']").count() == 0
    page.close()


def test_a_server_that_has_gone_is_said(browser, served):
    address, _ = served
    page = browser.new_page()
    page.goto(address)
    until(page, "document.getElementById('progress-state').textContent.includes('runs finished')")
    page.context.set_offline(True)
    until(page, "document.getElementById('progress-state').textContent.startsWith('The server does not answer')")
    page.close()
