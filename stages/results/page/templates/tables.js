// Tables: sorted by a click on a heading, small print on or off, one of several chosen from a list.

/** What a cell is sorted by: its number where it has one, else its text. */
function sortValue(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const text = cell.textContent.trim();
  const number = Number(text.replace(/[,\s\u00a0%<]/g, "").replace("\u2212", "-"));
  return text && !Number.isNaN(number) ? number : text;
}

/** Order of two values; what is missing comes last whichever way. */
function compareValues(one, other, way) {
  const missing = (value) => value === "" || value === "–";
  if (missing(one) || missing(other)) return Number(missing(one)) - Number(missing(other));
  if (typeof one === "number" && typeof other === "number") return way * (one - other);
  return way * String(one).localeCompare(String(other), "en");
}

/** Sort each body of a table for itself; way 0 is the order in which the page came. */
function sortTable(table, column, way) {
  for (const body of table.tBodies) {
    body.original ??= [...body.rows];
    const keyed = body.original.map((row) => [row, sortValue(row.cells[column])]);
    if (way) keyed.sort((one, other) => compareValues(one[1], other[1], way));
    body.append(...keyed.map(([row]) => row));
  }
}

function makeSortable(table) {
  const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  headings.forEach((heading, column) => {
    if (heading.classList.contains("plain")) return;
    // The better end first; names from A.
    const first = heading.classList.contains("words") || heading.dataset.direction === "-1" ? 1 : -1;
    let way = 0;
    const button = element("button", {type: "button", class: "sort", onclick: () => {
      way = way === 0 ? first : way === first ? -first : 0;
      for (const other of headings) if (other !== heading) other.dispatchEvent(new Event("unsorted"));
      if (way) heading.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
      sortTable(table, column, way);
    }}, ...heading.childNodes);
    if (heading.dataset.hint) {
      button.dataset.hint = heading.dataset.hint;
      delete heading.dataset.hint;
    }
    heading.addEventListener("unsorted", () => {
      way = 0;
      heading.removeAttribute("aria-sort");
    });
    heading.append(button);
  });
}

/** Show one of the parts of an element, chosen from a list. */
function makeChoice(holder) {
  const parts = [...document.getElementById(holder.dataset.choice).children];
  const show = (place) => parts.forEach((part, own) => { part.hidden = own !== Number(place); });
  holder.append(selection(holder.dataset.label, parts.map((part, place) => [String(place), part.dataset.option]),
    "0", show));
  holder.hidden = false;
  show(0);
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll("[data-choice]").forEach(makeChoice);
document.querySelectorAll("[data-toggles]").forEach((box) => {
  box.addEventListener("change", () => {
    document.getElementById(box.dataset.in).classList.toggle(box.dataset.toggles, box.checked);
  });
  box.closest("label").hidden = false;
});
