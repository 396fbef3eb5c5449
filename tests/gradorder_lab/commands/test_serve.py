"""The live page's server. What the page does with it is tested in show/test_live.py, in a browser."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from processes import interpreter, next_line

from gradorder_lab.commands import progress, serve
from gradorder_lab.commands.progress import ReproductionPlan, ReproductionProgress
from gradorder_lab.errors import LabError
from gradorder_lab.paper import EXPERIMENTS, far
from gradorder_lab.runs.store import Store

ROWS = {name: np.arange(1.0, 4.0) for name in ("epoch", "updates", "scored", "loss", "excess")}
NUM_RECIPES = len(EXPERIMENTS["synthetic-far"].recipes("mini"))


def add_runs(out, *seeds, recipes=None):
    with Store(out) as store:
        for recipe in recipes or far.far_recipes():
            for seed in seeds:
                store.add(recipe, seed, ROWS, 0.1)


def plan_of(num_finished=0, started=None, process=None, seeds=2):
    return ReproductionPlan(
        "mini", {"synthetic-far": seeds}, num_finished, started or time.time(), process or os.getpid()
    )


@pytest.fixture
def listening(tmp_path):
    with serve.server(tmp_path, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path="/progress.json", host=None, method="GET"):
    port = server.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers={"Host": f"127.0.0.1:{port}" if host is None else host})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer, body


def test_it_listens_on_loopback_only(listening):
    assert listening.server_address[0] == "127.0.0.1"


def test_other_names_are_refused(listening):
    port = listening.server_address[1]
    for host in (
        f"evil.example:{port}",
        "127.0.0.1",
        "localhost",
        f"127.0.0.1:{port + 1}",
        "",
        f"127.0.0.1:{port}.evil.example",
    ):
        answer, body = ask(listening, host=host)
        assert answer.status == 403, host
        assert "version" not in body
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert ask(listening, host=host)[0].status == 200


def test_nothing_else_is_there(listening):
    for path in ("/runs.sqlite", "/../runs.sqlite", "/plan.json", "/index.html", "//evil.example"):
        assert ask(listening, path)[0].status == 404
    for method in ("POST", "PUT", "DELETE"):
        assert ask(listening, method=method)[0].status == 501


def test_answers_cannot_be_kept_framed_or_read_from_elsewhere(listening):
    answer, _ = ask(listening)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Access-Control-Allow-Origin"] is None
    assert "Python" not in answer.headers["Server"]


def test_a_head_request_has_no_body(listening):
    answer, body = ask(listening, method="HEAD")
    assert (answer.status, body) == (200, "")


def test_before_a_run_it_says_so_and_shows_what_is_shipped(listening, tmp_path):
    _, body = ask(listening)
    assert json.loads(body) == {"version": "shipped", "progress": None}
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_no_store_is_an_answer_not_a_crash(listening, tmp_path):
    (tmp_path / "runs.sqlite").write_text("something else" * 1000)
    answer, body = ask(listening)
    assert answer.status == 503
    assert "runs.sqlite" in body


def test_progress_counts_planned_runs_only(tmp_path):
    add_runs(tmp_path, 0, 5)
    with Store(tmp_path) as store:
        found = ReproductionProgress.of(plan_of(started=1000.0), store, now=1060.0)
    assert found.parts == (progress.Done("synthetic-far", NUM_RECIPES, 2 * NUM_RECIPES),)
    assert found.is_running
    assert found.runs_per_minute == NUM_RECIPES
    assert found.seconds_left == 60


def test_what_was_there_before_is_no_speed(tmp_path):
    add_runs(tmp_path, 0)
    with Store(tmp_path) as store:
        found = ReproductionProgress.of(plan_of(num_finished=NUM_RECIPES, started=1000.0), store, now=1060.0)
    assert (found.runs_per_minute, found.seconds_left) == (None, None)


def test_a_finished_or_dead_run_is_not_running(tmp_path):
    add_runs(tmp_path, 0, 1)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    with Store(tmp_path) as store:
        assert not ReproductionProgress.of(plan_of(), store, time.time() + 1).is_running
        assert ReproductionProgress.of(plan_of(seeds=3), store, time.time() + 1).is_running
        assert not ReproductionProgress.of(plan_of(seeds=3, process=ended.pid), store, time.time() + 1).is_running


def test_a_plan_comes_back_and_what_is_no_plan_does_not(tmp_path):
    assert ReproductionPlan.load(tmp_path) is None
    plan_of().save(tmp_path)
    assert ReproductionPlan.load(tmp_path).seeds == {"synthetic-far": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    for text in ("", "[]", "{}", '{"size": "mini"}'):
        (tmp_path / "plan.json").write_text(text)
        assert ReproductionPlan.load(tmp_path) is None


def test_the_page_is_made_again_for_new_runs_but_not_all_the_time(tmp_path, monkeypatch):
    now = [0.0]
    rendered = []

    def render(page, **settings):
        rendered.append(settings)
        now[0] += 1
        return f"runs: {page.coverage['synthetic-far'].num_run}"

    monkeypatch.setattr(serve, "render_page", render)
    live = serve.LivePage(tmp_path, clock=lambda: now[0])
    add_runs(tmp_path, 0, recipes=far.far_recipes()[:1])
    assert live.whole() == "runs: 1"
    assert live.update() == "runs: 1"
    assert len(rendered) == 2
    add_runs(tmp_path, 0, recipes=far.far_recipes()[:2])
    assert live.progress()["version"] == "1"
    assert live.whole() == "runs: 1"
    now[0] += 9 * 2
    assert live.progress()["version"] == "2"
    assert live.whole() == "runs: 2"
    assert [one["live_version"] for one in rendered] == ["1", "1", "2", "2"]


def test_only_recipes_with_new_runs_are_read_again(tmp_path, monkeypatch):
    live = serve.LivePage(tmp_path)
    add_runs(tmp_path, 0)
    first = live._summary()
    read = []
    original = Store.rows
    monkeypatch.setattr(Store, "rows", lambda self, recipe: read.append(recipe) or original(self, recipe))
    add_runs(tmp_path, 1, recipes=far.far_recipes()[:1])
    second = live._summary()
    assert read == [far.far_recipes()[0].identity]
    assert second.get(far.far_recipes()[0]).seeds.tolist() == [0, 1]
    assert second.get(far.far_recipes()[1]) is first.get(far.far_recipes()[1])


def test_a_port_in_use_is_refused(listening, tmp_path):
    port = listening.server_address[1]
    with pytest.raises(LabError, match=f"--port must be a free port, got {port}: another program uses it"):
        serve.server(tmp_path, port)


def gradorder(*arguments):
    command = ["-c", "from gradorder_lab.cli import main; main()", *arguments]
    return interpreter(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_ends_it_cleanly(tmp_path):
    with gradorder("report", "--serve", "--port", "0", "--out", str(tmp_path)) as process:
        said = next_line(process.stdout, "the address of the page")
        port = int(said.split("127.0.0.1:")[1].split("/")[0])
        with socket.create_connection(("127.0.0.1", port)):
            process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert rest == "Ended.\n"
    assert errors == ""
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_shown_unless_ctrl_c_has_closed_the_connection(listening, capsys):
    ours, theirs = socket.socketpair()
    for _ in range(2):
        try:
            int("the disk is gone")
        except ValueError:
            listening.handle_error(ours, ("127.0.0.1", 1))
        ours.close()
    theirs.close()
    assert capsys.readouterr().err.count("ValueError") == 1


def test_a_port_without_serve_is_wrong_usage(tmp_path):
    with gradorder("report", "--port", "80", "--out", str(tmp_path)) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "needs --serve" in errors
