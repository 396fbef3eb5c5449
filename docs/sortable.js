// Tables inside <div class="sortable"> can be sorted by a click on a column and filtered by typing.
function numberIn(text) {
  const found = text.replace("−", "-").match(/^[+-]?[\d.]+(e-?\d+)?/);
  return found ? parseFloat(found[0]) : NaN;
}

function compare(a, b) {
  const [x, y] = [numberIn(a), numberIn(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
}

function sortBy(body, column, isReversed) {
  const rows = [...body.rows];
  rows.sort((one, other) => compare(one.cells[column].textContent, other.cells[column].textContent));
  body.append(...(isReversed ? rows.reverse() : rows));
}

function makeSortable(table) {
  const body = table.tBodies[0];
  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = "Filter, for example: recommended adamw";
  filter.setAttribute("aria-label", "Filter the rows of the table");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
  table.before(filter);
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    cell.tabIndex = 0;
    cell.setAttribute("role", "button");
    const sort = () => {
      const isReversed = cell.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", isReversed ? "descending" : "ascending");
      sortBy(body, column, isReversed);
    };
    cell.addEventListener("click", sort);
    cell.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}

document.querySelectorAll(".sortable table").forEach(makeSortable);
