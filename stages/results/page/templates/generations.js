// Outputs of all runs for the same items: found by text, filtered by how two runs differ, ordered, paged, saved.

// Places in an item's row, as stages/results/page/generations.py writes it.
const [ID, WORD, KNOWN, SOURCE, REFERENCES, REFERENCE_WORD, NEGATIVE, NEGATIVE_WORD, OUTPUTS, SCORES] =
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const SCORE_NAMES = ["BLEU-1", "BLEU-2", "BLEU-4"];
const ORDERED_BY = 1;   // BLEU-2 orders items: of order 1 alone much is chance, of order 4 most is zero
const MANY = 6;         // runs from which on only the two compared are shown at first

function startGenerations(holder) {
  const data = embedded(holder.dataset.source);
  if (!data || !data.items.length) return;
  const shown = Number(holder.dataset.shown);
  const runs = data.runs.map((name, place) => [String(place), name]);
  // Several keywords come joined by spaces.
  const words = (item) => (data.many && item[WORD] ? item[WORD].split(/\s+/) : [item[WORD]]);
  const state = {query: "", first: 0, second: Math.min(1, runs.length - 1), differ: false, against: "none",
    order: "given", only: "all", runs: runs.length > MANY ? "two" : "all", page: 0};
  const begin = {...state};
  const score = (item, run) => item[SCORES][run]?.[ORDERED_BY] ?? 0;
  const gap = (item) => score(item, state.first) - score(item, state.second);
  const orders = {
    best: (one, other) => score(other, state.first) - score(one, state.first),
    worst: (one, other) => score(one, state.first) - score(other, state.first),
    ahead: (one, other) => gap(other) - gap(one),
    behind: (one, other) => gap(one) - gap(other),
  };

  const kinds = {
    ahead: (item) => gap(item) > 0, behind: (item) => gap(item) < 0, even: (item) => gap(item) === 0,
    known: (item) => item[KNOWN], unseen: (item) => !item[KNOWN],
  };

  const list = element("div", {class: "items"});
  const status = element("p", {class: "status", "aria-live": "polite"});
  const previous = element("button", {type: "button", onclick: () => turn(-1)}, "Previous");
  const next = element("button", {type: "button", onclick: () => turn(1)}, "Next");

  function found() {
    const wanted = state.query.trim().toLowerCase();
    const items = data.items.filter((item) => {
      if (state.only !== "all" && !kinds[state.only](item)) return false;
      if (state.differ && item[OUTPUTS][state.first] === item[OUTPUTS][state.second]) return false;
      if (!wanted) return true;
      return [String(item[ID]), item[WORD], item[SOURCE], item[REFERENCE_WORD], item[NEGATIVE], ...item[REFERENCES],
        ...item[OUTPUTS]].some((text) => text !== null && text.toLowerCase().includes(wanted));
    });
    return orders[state.order] ? items.sort(orders[state.order]) : items;
  }

  function outputRow(item, run) {
    const others = {source: item[SOURCE], reference: item[REFERENCES].join(" "), none: null,
      pair: run === state.first ? item[OUTPUTS][state.second] : run === state.second ? item[OUTPUTS][state.first] : null};
    const scores = item[SCORES][run];
    return element("div", {class: "output"}, element("dt", {lang: "en"}, data.runs[run],
      scores ? element("span", {class: "scores", "data-hint": `${SCORE_NAMES.join(", ")} of this item, each order alone `
        + "with smoothing 7"}, scores.map((value) => (value === null ? "–" : value.toFixed(2))).join(" · ")) : null),
    element("dd", {dir: "auto"}, ...marked(item[OUTPUTS][run], [...words(item), item[REFERENCE_WORD]],
      others[state.against])));
  }

  function article(item) {
    const row = (name, word, text, keywords) => element("div", {},
      element("dt", {lang: "en"}, word ? `${name} · ${word}` : name), element("dd", {dir: "auto"},
        ...marked(text, keywords)));
    const order = state.runs === "two" ? [...new Set([state.first, state.second])] : data.runs.map((_, place) => place);
    const heading = element("h5", {lang: "en"}, `Example ${item[ID]}`);
    if (item[WORD]) {
      const name = words(item).length > 1 ? " · keywords " : " · keyword ";
      heading.append(name, element("strong", {}, element("bdi", {}, item[WORD])),
        item[KNOWN] ? "" : ", not in the training graph");
    }
    return element("article", {lang: holder.dataset.language}, heading, element("dl", {class: "texts"},
      row("source", null, item[SOURCE], words(item)),
      ...item[REFERENCES].map((text, place) => row("reference", place ? null : item[REFERENCE_WORD], text,
        item[REFERENCE_WORD] ? [item[REFERENCE_WORD]] : words(item))),
      item[NEGATIVE] === null ? null : row("negative", item[NEGATIVE_WORD], item[NEGATIVE], [item[NEGATIVE_WORD]]),
      ...order.map((run) => outputRow(item, run))));
  }

  function draw() {
    const items = found();
    const pages = Math.max(1, Math.ceil(items.length / shown));
    state.page = Math.max(0, Math.min(state.page, pages - 1));
    const from = state.page * shown;
    remember();
    const here = items.slice(from, from + shown);
    list.replaceChildren(...here.map(article));
    status.textContent = items.length
      ? `${from + 1} to ${from + here.length} of ${counted(items.length, "item")}`
      : "No item matches. Clear the search, show all items, or untick “only where they differ”.";
    if (several && items.length) status.textContent += comparison(items);
    previous.disabled = state.page === 0;
    next.disabled = state.page === pages - 1;
  }

  /** How many of the items each of the two runs does better. */
  function comparison(items) {
    const [first, second] = [state.first, state.second].map((run) => data.runs[run]);
    if (state.first === state.second || !items.every((item) => item[SCORES][state.first] && item[SCORES][state.second])) return "";
    const count = (kind) => items.filter(kinds[kind]).length;
    return `; by their own ${SCORE_NAMES[ORDERED_BY]}, ${first} is ahead in ${count("ahead")}, ${second} in ${count("behind")}, `
      + `and ${count("even")} are even`;
  }

  /** Let the address say what is shown, once a reader has changed it. */
  function remember() {
    const changed = Object.keys(begin).filter((name) => state[name] !== begin[name]);
    if (!changed.length && !addressed(holder.id)) return;
    readdress(holder.id, Object.fromEntries(changed.map((name) => [name, ["first", "second"].includes(name)
      ? data.runs[state[name]] : String(state[name])])));
  }

  /** Show what the address says. */
  function recall() {
    const said = addressed(holder.id);
    for (const [name, value] of said ?? []) {
      const run = data.runs.indexOf(value);
      if (name === "first" || name === "second") state[name] = run >= 0 ? run : state[name];
      else if (name === "differ") state.differ = value === "true";
      else if (name === "page") state.page = Number(value) || 0;
      else if (name === "query" || choices[name]?.includes(value)) state[name] = value;
    }
  }

  function savedRows() {
    const scored = data.runs.flatMap((name) => SCORE_NAMES.map((score) => `${score} of ${name}`));
    return [["example", "keyword", "in the training graph", "source", "references", "negative", ...data.runs.map((name) =>
      `output of ${name}`), ...scored], ...found().map((item) => [String(item[ID]), item[WORD] ?? "", item[KNOWN] ? "yes" : "no",
      item[SOURCE], item[REFERENCES].join(" | "), item[NEGATIVE] ?? "", ...item[OUTPUTS],
      ...data.runs.flatMap((_, run) => SCORE_NAMES.map((_, place) => String(item[SCORES][run]?.[place] ?? "")))])];
  }

  function turn(step) {
    state.page += step;
    draw();
    holder.scrollIntoView({block: "start"});
  }

  const change = (name, read = (value) => value) => (value) => {
    state[name] = read(value);
    state.page = 0;
    draw();
  };
  const several = runs.length > 1;
  const against = [["none", "nothing"], ["source", "the source"], ["reference", "the references"],
    ...(several ? [["pair", "the other of the two"]] : [])];
  const order = [["given", "as evaluated"], ["best", "best of the first"], ["worst", "worst of the first"],
    ...(several ? [["ahead", "first ahead of second"], ["behind", "first behind second"]] : [])];
  const only = [["all", "all items"], ...(several ? [["ahead", "where the first is ahead"],
    ["behind", "where the second is ahead"], ["even", "where they are even"]] : []),
  ...(data.many ? [] : [["known", "keyword in the training graph"], ["unseen", "keyword not in it"]])];
  const both = [["all", "all runs"], ["two", "only these two"]];
  const choices = Object.fromEntries(Object.entries({against, order, only, runs: both}).map(([name, options]) =>
    [name, options.map(([key]) => key)]));

  function build() {
    const query = element("input", {type: "search", placeholder: "in any text, keyword or number", value: state.query,
      oninput: () => change("query")(query.value)});
    const differ = element("input", {type: "checkbox", onchange: () => change("differ")(differ.checked)});
    differ.checked = state.differ;
    const controls = element("div", {class: "controls", role: "group", "aria-label": "What is shown"},
      element("label", {class: "wide"}, element("span", {}, "Find"), query),
      several ? selection("Compare", runs, String(state.first), change("first", Number)) : null,
      several ? selection("with", runs, String(state.second), change("second", Number)) : null,
      selection("Underline words new against", against, state.against, change("against")),
      selection("Order", order, state.order, change("order")),
      selection("Only", only, state.only, change("only")),
      runs.length > 2 ? selection("Show", both, state.runs, change("runs")) : null,
      several ? element("label", {class: "tick"}, differ, "only where they differ") : null,
      element("button", {type: "button", onclick: () => save(fileName(holder.dataset.source), csvText(savedRows()))},
        "Save these as CSV"));
    holder.replaceChildren(controls, status, list, element("div", {class: "pages"}, previous, next));
    draw();
  }
  recall();
  build();
  window.addEventListener("hashchange", () => {
    if (!addressed(holder.id)) return;
    recall();
    build();
  });
}

document.querySelectorAll(".generations").forEach(startGenerations);
