"use strict";

let { arrays, styles, figures } = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const hidden = new Set(); // labels that are hidden in every figure
const states = new Map(); // figure element -> { name, view, axis, isDrawn }
const PANEL_HEIGHT = { wide: 265, narrow: 205 };
const NARROWEST_PANEL = 270;
const SAVED_WIDTH = 1100;

// ---- light and dark ----

const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemIsDark.matches);

function rememberedTheme() {
  try {
    return localStorage.getItem("gradorder-theme");
  } catch {
    return null; // a page from disk may have no storage
  }
}

function rememberTheme(theme) {
  try {
    localStorage.setItem("gradorder-theme", theme);
  } catch {
    // then the next visit begins as the system says
  }
}

function setTheme(theme) {
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  redrawAll();
}

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  rememberTheme(theme);
  setTheme(theme);
}

// ---- a figure for plotly ----

const suffix = (number) => (number === 0 ? "" : String(number + 1));
const withAlpha = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const labelsOf = (figure) => [...new Set(figure.panels.flatMap((panel) => panel.curves.map((curve) => curve.label)))];

const baseline = (panel) => panel.curves.find((curve) => /random/.test(curve.label)) ?? panel.curves[0];

/** What is drawn, in the units of the view: x and means, and where they are shown also the ends of the band. */
function values(panel, curve, { view, axis }) {
  const [x, mean, low, high] = [curve.x[axis], curve.mean, curve.low, curve.high].map((number) => arrays[number]);
  if (view !== "against") return { x, mean, low, high };
  const theirs = arrays[baseline(panel).mean];
  const difference = mean.map((value, row) => (value === null || !theirs[row] ? null : 100 * (value / theirs[row] - 1)));
  const isWhole = (_, row) => curve.x.epoch === undefined || Number.isInteger(arrays[curve.x.epoch][row]);
  return { x: x.filter(isWhole), mean: difference.filter(isWhole) }; // within an epoch orders have seen different examples
}

function traces(figure, state, dark) {
  const bands = [];
  const lines = [];
  const named = new Set();
  figure.panels.forEach((panel, number) => {
    for (const curve of panel.curves) {
      const { band, line } = curveTraces(panel, number, curve, state, dark);
      line.showlegend = !named.has(curve.label);
      named.add(curve.label);
      lines.push(line);
      if (band) bands.push(band);
    }
  });
  return [...bands, ...lines]; // no band lies over a line
}

function curveTraces(panel, number, curve, state, dark) {
  const style = styles[curve.label];
  const colour = dark ? style.dark : style.light;
  const { x, mean, low, high } = values(panel, curve, state);
  const digits = state.view === "against" ? 4 : panel.digits;
  const common = {
    name: escaped(curve.label), legendgroup: curve.label, visible: !hidden.has(curve.label),
    xaxis: "x" + suffix(number), yaxis: "y" + suffix(number), type: "scatter", mode: "lines",
  };
  const line = {
    ...common, x, y: mean, line: { color: colour, dash: style.dash, width: 2 },
    customdata: low ? low.map((value, row) => [value, high[row]]) : undefined,
    hovertemplate: low
      ? `%{y:.${digits}~g} <span style="font-size:0.85em">(%{customdata[0]:.${digits}~g} to %{customdata[1]:.${digits}~g})</span>`
      : `%{y:+.${digits}~g}%`,
  };
  return { line, band: low && outline(common, x, low, high, colour, state.view) };
}

/** A closed outline: there along the upper ends, back along the lower. */
function outline(common, x, low, high, colour, view) {
  const floor = view === "log" ? Math.min(...[...low, ...high].filter((value) => value > 0)) : -Infinity;
  const raised = (ends) => ends.map((value) => (value === null ? null : Math.max(value, floor)));
  return {
    ...common, x: [...x, ...[...x].reverse()], y: [...raised(high), ...raised(low).reverse()],
    fill: "toself", fillcolor: withAlpha(colour, 0.09), line: { width: 0 }, hoverinfo: "skip", showlegend: false,
  };
}

const columnsOf = (figure, width) => Math.max(1, Math.min(figure.columns, Math.floor(width / NARROWEST_PANEL)));
const rowsOf = (figure, width) => Math.ceil(figure.panels.length / columnsOf(figure, width));
const heightOf = (figure, width) => rowsOf(figure, width) * (columnsOf(figure, width) > 1 ? PANEL_HEIGHT.wide : PANEL_HEIGHT.narrow) + 40;

function layout(figure, state, dark, width, isSaved) {
  const columns = columnsOf(figure, width);
  const rows = rowsOf(figure, width);
  const height = heightOf(figure, width) + (isSaved ? 80 : 0);
  const margin = { l: 76, r: 8, t: isSaved ? 80 : 8, b: 48 };
  const colours = dark
    ? { ink: "#e8eaed", grid: "#2b3137", paper: "#14171a", box: "#1c2024" }
    : { ink: "#1b1f24", grid: "#e6e9ec", paper: "#ffffff", box: "#ffffff" };
  const made = {
    width, height, margin, annotations: [], hovermode: "x unified", hoverdistance: -1, showlegend: isSaved,
    uirevision: `${state.view} ${state.axis}`, // a zoom lasts until the axes are others
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls the page
    paper_bgcolor: colours.paper, plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif", size: 12, color: colours.ink },
    hoverlabel: { bgcolor: colours.box, bordercolor: colours.grid, font: { color: colours.ink, size: 12 }, namelength: -1 },
  };
  const places = panelPlaces(figure.panels.length, columns, rows, width - margin.l - margin.r, height - margin.t - margin.b);
  figure.panels.forEach((panel, number) => {
    const place = places[number];
    const axis = { gridcolor: colours.grid, zerolinecolor: colours.grid, linecolor: colours.grid };
    made["xaxis" + suffix(number)] = { ...axis, ...xAxis(figure, state, number, place) };
    made["yaxis" + suffix(number)] = { ...axis, ...yAxis(figure, panel, state, number, place) };
    made.annotations.push({
      text: `<b>${escaped(panel.title)}</b>` + (panel.curves.length ? "" : " (missing)"),
      x: place.x[0], y: place.top, xref: "paper", yref: "paper", xanchor: "left", yanchor: "top",
      showarrow: false, font: { size: 12.5, color: colours.ink },
    });
  });
  return made;
}

/** Where each panel lies, as shares of the inner width and height; the gaps are for tick labels and titles. */
function panelPlaces(number, columns, rows, width, height) {
  const gap = { x: 70 / width, y: 62 / height };
  const size = { x: (1 - (columns - 1) * gap.x) / columns, y: (1 - (rows - 1) * gap.y) / rows };
  return Array.from({ length: number }, (_, place) => {
    const left = (place % columns) * (size.x + gap.x);
    const top = 1 - Math.floor(place / columns) * (size.y + gap.y);
    const isLowest = columns === 1 || place + columns >= number;
    return { x: [left, left + size.x], y: [top - size.y, top - 24 / height], top, isLowest, isFirst: place % columns === 0 };
  });
}

function xAxis(figure, state, number, place) {
  const title = { text: place.isLowest ? escaped(figure.xLabels[state.axis]) : "", standoff: 8 };
  return { domain: place.x, anchor: "y" + suffix(number), nticks: 6, hoverformat: ",~r", title };
}

function yAxis(figure, panel, state, number, place) {
  const title = { text: place.isFirst ? yTitle(figure, state.view) : "", standoff: 4 };
  const ticks = state.view === "log"
    ? { type: "log", exponentformat: "power", dtick: logStep(panel) }
    : { type: "linear", exponentformat: "e", minexponent: 5, nticks: 6 };
  return { domain: place.y, anchor: "x" + suffix(number), tickfont: { size: 11 }, title, ...ticks };
}

function yTitle(figure, view) {
  const panel = figure.panels.find(({ curves }) => curves.length);
  return view === "against" ? `difference from ${escaped(baseline(panel).label)},<br>% of its value` : escaped(figure.yLabel);
}

/** Between one and two decades plotly would write every digit: 1, 2 and 5 are enough. */
function logStep(panel) {
  const all = panel.curves.flatMap((curve) => [...arrays[curve.low], ...arrays[curve.high]]).filter((value) => value > 0);
  const ratio = Math.max(...all) / Math.min(...all);
  return ratio > 6 && ratio < 100 ? "D2" : undefined;
}

// ---- drawing ----

/** Plotly is large: it is unpacked when the page stands and nothing else is to do, or when a figure needs it. */
let unpacked;
const plotlyReady = () => (unpacked ??= unpackPlotly());

async function unpackPlotly() {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}

async function draw(element) {
  await plotlyReady();
  const state = states.get(element);
  if (state) drawNow(element, state);
}

function drawNow(element, state) {
  const plot = element.querySelector(".plot");
  const dark = isDark();
  const figure = figures[state.name];
  Plotly.react(plot, traces(figure, state, dark), layout(figure, state, dark, plot.clientWidth, false), {
    displaylogo: false, displayModeBar: "hover", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d"]], // none that sends anything
  });
  state.isDrawn = true;
}

function fillLegend(element) {
  const buttons = labelsOf(figures[element.dataset.figure]).map((label) => {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.label = label;
    button.setAttribute("aria-pressed", "true");
    button.append(swatch(styles[label]), label);
    button.addEventListener("click", () => toggle(label));
    return button;
  });
  element.querySelector(".legend").append(...buttons);
}

const DASHES = { solid: "", dash: "9 5", dot: "2 4", dashdot: "9 4 2 4", longdash: "14 5", longdashdot: "14 4 2 4" };

function swatch(style) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of Object.entries({ width: 40, height: 8, "aria-hidden": "true" })) svg.setAttribute(name, value);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [name, value] of Object.entries({ x1: 0, x2: 40, y1: 4, y2: 4, "stroke-width": 2.5, "stroke-dasharray": DASHES[style.dash] })) line.setAttribute(name, value);
  line.style.stroke = `light-dark(${style.light}, ${style.dark})`;
  svg.append(line);
  return svg;
}

function toggle(label) {
  hidden.has(label) ? hidden.delete(label) : hidden.add(label);
  for (const button of document.querySelectorAll(".legend button")) button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.label)));
  redrawAll();
}

/** What is in sight now, the rest when it comes into sight. */
function redrawAll() {
  for (const [element, state] of states) {
    state.isDrawn = false;
    const plot = element.querySelector(".plot"); // not the figure: of what is folded the title is in sight
    nearby.unobserve(plot);
    nearby.observe(plot);
  }
}

/** What is in sight at once, what is near it when there is nothing else to do. */
const nearby = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      const element = target.closest("figure");
      if (isInSight(target)) drawOnce(element);
      else whenIdle(() => drawOnce(element));
    }
  },
  { rootMargin: "300px 0px" },
);

const whenIdle = window.requestIdleCallback ?? setTimeout;

function isInSight(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

function drawOnce(element) {
  if (states.get(element)?.isDrawn === false) draw(element);
}

// ---- saving ----

async function save(element, kind) {
  const state = states.get(element);
  const figure = figures[state.name];
  if (kind === "csv") return saveText(`${state.name}.csv`, csv(figure));
  await plotlyReady();
  const made = layout(figure, state, false, SAVED_WIDTH, true); // on paper it is always light
  made.title = { text: `<b>${escaped(figure.title)}</b>`, x: 0, xref: "paper", y: 1, yref: "container", yanchor: "top", pad: { t: 12 }, font: { size: 16 } };
  made.legend = { orientation: "h", x: 0, xanchor: "left", y: 1 - 34 / made.height, yref: "container", yanchor: "top" };
  const size = { width: SAVED_WIDTH, height: made.height, scale: kind === "png" ? 2 : 1 };
  return Plotly.downloadImage({ data: traces(figure, state, false), layout: made }, { format: kind, filename: state.name, ...size });
}

const quoted = (text) => `"${String(text).replace(/"/g, '""')}"`;

function csv(figure) {
  const axes = Object.keys(figure.xLabels);
  const lines = [["panel", "label", "seeds", ...axes, "mean", "low", "high"].map(quoted)];
  for (const panel of figure.panels)
    for (const curve of panel.curves)
      arrays[curve.mean].forEach((_, row) => {
        const columns = [...axes.map((axis) => curve.x[axis]), curve.mean, curve.low, curve.high];
        lines.push([quoted(panel.title), quoted(curve.label), curve.seeds, ...columns.map((column) => arrays[column][row] ?? "")]);
      });
  return lines.map((line) => line.join(",")).join("\r\n") + "\r\n";
}

/** A table as it stands on the page. */
function tableCsv(element) {
  const lines = [...element.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => quoted(cell.textContent.trim())));
  return lines.map((line) => line.join(",")).join("\r\n") + "\r\n";
}

function saveText(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// ---- start ----

/** A figure as it comes, or as the reader had it before. */
function prepare(element, before) {
  const name = element.dataset.figure;
  const figure = figures[name];
  const [view, axis] = [element.querySelector(".view"), element.querySelector(".axis")];
  const first = { view: figure.view, axis: Object.keys(figure.xLabels)[0] };
  const state = { ...first, ...before, name, isDrawn: false };
  states.set(element, state);
  [view.value, axis.value] = [state.view, state.axis];
  view.addEventListener("change", () => { state.view = view.value; draw(element); });
  axis.addEventListener("change", () => { state.axis = axis.value; draw(element); });
  for (const button of element.querySelectorAll("[data-save]")) button.addEventListener("click", () => save(element, button.dataset.save));
  fillLegend(element);
}

/** Room for figures before they are drawn, so that links to what follows land where they should; they are equally wide. */
function reserve(elements) {
  const width = document.getElementById("figures").clientWidth;
  for (const element of elements) element.querySelector(".plot").style.minHeight = heightOf(figures[element.dataset.figure], width) + "px";
}

function onWidthChange() {
  if (onWidthChange.width === root.clientWidth) return; // phones change the height while scrolling
  onWidthChange.width = root.clientWidth;
  reserve([...states.keys()]);
  redrawAll();
}

function prepareTable(element) {
  const name = `${element.dataset.table}.csv`;
  element.querySelector("[data-save]").addEventListener("click", () => saveText(name, tableCsv(element)));
}

/** What a link leads to is unfolded: all that it lies in, and it itself. */
function showTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let outer = target; outer; outer = outer.parentElement) if (outer.matches("details")) outer.open = true;
  const own = target.querySelector(":scope > details, :scope > td > details");
  if (own && !target.matches("section")) own.open = true;
  target.scrollIntoView();
}

document.querySelectorAll("figure[data-figure]:has(.plot)").forEach((element) => prepare(element));
reserve([...states.keys()]);
document.querySelectorAll("figure[data-table]").forEach(prepareTable);
onWidthChange.width = root.clientWidth;
setTheme(rememberedTheme());
showTarget();
addEventListener("hashchange", showTarget);
document.addEventListener("click", ({ target }) => { if (target.closest("a")?.hash === location.hash) showTarget(); }); // once more
document.getElementById("theme").addEventListener("click", switchTheme);
systemIsDark.addEventListener("change", redrawAll);
addEventListener("load", () => whenIdle(plotlyReady));
let waiting;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(onWidthChange, 150); });
addEventListener("beforeprint", () => { // what is folded stays so
  for (const [element, state] of states) if (window.Plotly && !state.isDrawn && element.querySelector(".plot").clientWidth) drawNow(element, state);
});
