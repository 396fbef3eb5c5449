"use strict";

// While runs are made: how far they are, and the page as it grows. The blocks that change are put in place one by one,
// so that the reader stays where he is; figures that are there keep their view and their zoom.

const POLL_MILLISECONDS = 2000;
let version = document.body.dataset.version;

/** The block that the reader looks at, and where it is. */
function placeOfReader() {
  const block = [...document.querySelectorAll("[data-live]")].find((one) => one.getBoundingClientRect().bottom > 60);
  return block && { id: block.id, top: block.getBoundingClientRect().top };
}

function goBackTo(place) {
  const block = place && document.getElementById(place.id);
  if (block) scrollBy({ top: block.getBoundingClientRect().top - place.top, behavior: "instant" });
}

function patch(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const place = placeOfReader();
  ({ arrays, styles, figures } = JSON.parse(fresh.getElementById("data").textContent));
  for (const block of document.querySelectorAll("[data-live]")) if (!fresh.getElementById(block.id)) block.remove();
  for (const block of fresh.querySelectorAll("[data-live]")) putInPlace(block);
  redrawAll();
  goBackTo(place);
  version = fresh.body.dataset.version;
  document.body.dataset.version = version;
}

function putInPlace(block) {
  const old = document.getElementById(block.id);
  const markup = block.outerHTML;
  if (served.get(block.id) === markup) return;
  if (old && old.contains(document.activeElement)) return; // not under the reader's hands: next time
  served.set(block.id, markup);
  const put = document.importNode(block, true);
  if (!old) document.getElementById(block.parentElement.id).append(put);
  else {
    keepOpen(old, put);
    keepPlot(old, put);
    old.replaceWith(put);
  }
  const state = states.get(old);
  states.delete(old);
  if (put.querySelector(".plot")) {
    prepare(put, state);
    reserve([put]);
  }
  if (put.dataset.table) prepareTable(put);
}

/** The drawing moves over, with the zoom that it has; it is drawn again from the new rows. */
function keepPlot(old, put) {
  const [before, after] = [old, put].map((block) => block.querySelector(".plot"));
  if (!before || !after) return;
  before.setAttribute("aria-label", after.getAttribute("aria-label"));
  after.replaceWith(before);
}

/** What was unfolded stays so, what was scrolled too. */
function keepOpen(old, put) {
  const [before, after] = [old, put].map((block) => block.querySelectorAll("details"));
  if (before.length === after.length) after.forEach((details, number) => (details.open = before[number].open));
  const [from, to] = [old, put].map((block) => block.querySelectorAll(".scroll"));
  requestAnimationFrame(() => {
    if (from.length === to.length) to.forEach((area, number) => area.scrollTo(from[number].dataset.left ?? 0, from[number].dataset.top ?? 0));
  });
}

addEventListener("scroll", ({ target }) => {
  if (target.dataset) Object.assign(target.dataset, { left: target.scrollLeft, top: target.scrollTop });
}, true);

function duration(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} seconds`;
  if (seconds < 5400) return `${Math.ceil(seconds / 60)} minutes`;
  return `${(seconds / 3600).toFixed(1)} hours`;
}

function shownState(progress) {
  const total = (key) => progress.parts.reduce((sum, part) => sum + part[key], 0);
  const [finished, planned] = [total("num_finished"), total("num_planned")];
  const words = [`${finished.toLocaleString("en")} of ${planned.toLocaleString("en")} runs finished`];
  if (finished === planned) return words[0] + ": done.";
  if (!progress.is_running) return words[0] + "; nothing is running now.";
  if (progress.runs_per_minute) words.push(`${Number(progress.runs_per_minute.toPrecision(3))} runs a minute`);
  if (progress.seconds_left) words.push(`about ${duration(progress.seconds_left)} left at this rate`);
  return words.join(", ") + ".";
}

function showProgress(progress) {
  const said = progress ? shownState(progress) : "No run has begun here: what is shown comes with the laboratory.";
  const state = document.getElementById("progress-state");
  if (state.textContent !== said) state.textContent = said;
  const body = document.getElementById("progress-parts");
  body.replaceChildren(...(progress?.parts ?? []).map(progressRow));
}

function progressRow(part) {
  const row = document.createElement("tr");
  row.dataset.experiment = part.experiment;
  const name = document.createElement("th");
  name.scope = "row";
  name.textContent = part.experiment;
  const bar = Object.assign(document.createElement("progress"), { max: part.num_planned || 1, value: part.num_finished });
  bar.setAttribute("aria-label", part.experiment);
  const cells = [bar, `${part.num_finished.toLocaleString("en")} of ${part.num_planned.toLocaleString("en")}`].map((content) => {
    const cell = document.createElement("td");
    cell.append(content);
    return cell;
  });
  row.append(name, ...cells);
  return row;
}

async function poll() {
  try {
    if (!document.hidden) await refresh();
  } catch {
    document.getElementById("progress-state").textContent = "The server does not answer: the page shows what it last said.";
  }
  setTimeout(poll, POLL_MILLISECONDS);
}

async function refresh() {
  const answer = await fetch("/progress.json");
  if (!answer.ok) throw new Error(await answer.text());
  const now = await answer.json();
  showProgress(now.progress);
  if (now.version !== version) {
    const page = await fetch("/update");
    if (page.ok) patch(await page.text());
  }
}

poll();
