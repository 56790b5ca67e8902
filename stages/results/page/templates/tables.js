// Tables: sorted by a click on a heading, small print on or off, one of several chosen from a list, saved as CSV.

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

/** A cell of CSV: what a program of tables would take for a formula is made a text, but a number. */
function csvCell(text) {
  const safe = /^[=+\-@\t\r]/.test(text) && !/^[+-]?[\d.,]+(e[+-]?\d+)?$/i.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

const csvText = (rows) => `\ufeff${rows.map((row) => row.map(csvCell).join(",")).join("\r\n")}\r\n`;

/** Give a text to the reader as a file. */
function save(name, text) {
  const address = URL.createObjectURL(new Blob([text], {type: "text/csv;charset=utf-8"}));
  element("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const fileName = (title) => `${title.trim().toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60)}.csv`;

/** What a cell says, [in large, in small print]; numbers as they were before they were rounded. */
function cellTexts(cell) {
  const copy = cell.cloneNode(true);
  const small = [...copy.querySelectorAll("small")].map((one) => {
    one.remove();
    return one.textContent.trim();
  });
  const text = copy.textContent.replace(/\s+/g, " ").trim().replace(/^\u2212(?=\d)/, "-");
  return [cell.dataset.value ?? text, small.join(" ").replace(/\u2212(?=\d)/g, "-")];
}

/** The rows of a table as texts, with its headings; small print has columns of its own. */
function tableRows(table) {
  const groups = [...(table.tHead?.rows.length > 1 ? table.tHead.rows[0].cells : [])].flatMap((cell) =>
    Array(cell.colSpan).fill(cell.textContent.trim()));
  const headings = [...(table.tHead?.rows[table.tHead.rows.length - 1].cells ?? [])].map((cell, place) =>
    (cell.classList.contains("plain") ? null : [groups[place], cell.textContent.replace(/\s+/g, " ").trim()].filter(Boolean).join(": ")));
  let above = null;
  const rows = [];
  for (const row of [...table.tBodies].flatMap((body) => [...body.rows])) {
    if (row.classList.contains("raised")) continue;
    if (row.cells.length === 1 && row.cells[0].colSpan > 1) above = cellTexts(row.cells[0])[0];
    else rows.push({above, cells: [...row.cells].map(cellTexts)});
  }
  const columns = Math.max(headings.length, ...rows.map(({cells}) => cells.length));
  const shown = [...Array(columns).keys()].filter((place) => headings[place] !== null);
  const twofold = shown.filter((place) => rows.some(({cells}) => cells[place]?.[1]));
  const spread = (read, beside) => shown.flatMap((place) => (twofold.includes(place) ? [read(place), beside(place)] : [read(place)]));
  const grouped = rows.some((row) => row.above !== null);
  const lines = rows.map((row) => [...(grouped ? [row.above ?? ""] : []),
    ...spread((place) => row.cells[place]?.[0] ?? "", (place) => row.cells[place]?.[1] ?? "")]);
  const first = spread((place) => headings[place] ?? "", (place) => `${headings[place] ?? ""} (small print)`);
  return headings.length ? [[...(grouped ? ["group"] : []), ...first], ...lines] : lines;
}

function makeSavable(table) {
  const caption = table.caption;
  const title = (caption.querySelector("strong") ?? caption).textContent.trim();
  const button = element("button", {type: "button", class: "download", "aria-label": `Save as CSV: ${title.slice(0, 80)}`,
    onclick: () => save(fileName(title), csvText(tableRows(table)))}, "CSV");
  (caption.querySelector("span") ?? caption).append(" ", button);
}

document.querySelectorAll("main table").forEach(makeSavable);
document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll("[data-choice]").forEach(makeChoice);
document.querySelectorAll("[data-toggles]").forEach((box) => {
  box.addEventListener("change", () => {
    document.getElementById(box.dataset.in).classList.toggle(box.dataset.toggles, box.checked);
  });
  box.closest("label").hidden = false;
});
