// Two classifiers text by text: where one is right and the other wrong, and what each says there.

const ANSWERS = 3;      // place of the answers in an item's row; before it id, class and text

function startMistakes(holder) {
  const data = embedded(holder.dataset.source);
  if (!data || !data.items.length || data.runs.length < 2) return;
  const shown = Number(holder.dataset.shown) || 12;
  const runs = data.runs.map((name, place) => [String(place), name]);
  const state = {query: "", first: 0, second: 1, only: "differ", page: 0};
  const begin = {...state};
  const wrong = (item, run) => item[ANSWERS][run] !== null;
  const kinds = {
    differ: (item) => item[ANSWERS][state.first]?.[0] !== item[ANSWERS][state.second]?.[0],
    first: (item) => !wrong(item, state.first) && wrong(item, state.second),
    second: (item) => wrong(item, state.first) && !wrong(item, state.second),
    both: (item) => wrong(item, state.first) && wrong(item, state.second),
  };
  const only = [["differ", "where they say different classes"], ["first", "where the first alone is right"],
    ["second", "where the second alone is right"], ["both", "where both are wrong"]];
  const list = element("div", {class: "items"});
  const status = element("p", {class: "status", "aria-live": "polite"});
  const previous = element("button", {type: "button", onclick: () => turn(-1)}, "Previous");
  const next = element("button", {type: "button", onclick: () => turn(1)}, "Next");

  const found = () => data.items.filter((item) => kinds[state.only](item) && (!state.query.trim() || [item[1], item[2],
    ...item[ANSWERS].map((answer) => answer?.[0] ?? "")].some((text) => text.toLowerCase().includes(state.query.trim().toLowerCase()))));

  function answer(item, run) {
    const said = item[ANSWERS][run];
    return element("div", {class: "output"}, element("dt", {lang: "en"}, data.runs[run]),
      element("dd", {}, ...(said ? [element("span", {class: "worse-text"}, "wrong"), ": ", element("bdi", {}, said[0]),
        ` with probability ${said[1].toFixed(2)}`] : [element("span", {class: "better-text"}, "right")])));
  }

  function draw() {
    const items = found();
    const pages = Math.max(1, Math.ceil(items.length / shown));
    state.page = Math.max(0, Math.min(state.page, pages - 1));
    const from = state.page * shown;
    const here = items.slice(from, from + shown);
    const count = (kind) => data.items.filter(kinds[kind]).length;
    list.replaceChildren(...here.map((item) => element("article", {lang: holder.dataset.language},
      element("h5", {lang: "en"}, `Example ${item[0]} · is `, element("strong", {}, element("bdi", {}, item[1]))),
      element("p", {dir: "auto"}, item[2]),
      element("dl", {class: "texts"}, ...[...new Set([state.first, state.second])].map((run) => answer(item, run))))));
    status.textContent = `${items.length ? `${from + 1} to ${from + here.length} of ${counted(items.length, "text")}` : "No text"}`
      + `; of all, ${data.runs[state.first]} alone is right in ${count("first")}, ${data.runs[state.second]} alone in `
      + `${count("second")}, and both are wrong in ${count("both")}`;
    previous.disabled = state.page === 0;
    next.disabled = state.page === pages - 1;
    const changed = Object.keys(begin).filter((name) => state[name] !== begin[name]);
    if (changed.length || addressed(holder.id)) {
      readdress(holder.id, Object.fromEntries(changed.map((name) => [name, ["first", "second"].includes(name)
        ? data.runs[state[name]] : String(state[name])])));
    }
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

  function recall() {
    for (const [name, value] of addressed(holder.id) ?? []) {
      const run = data.runs.indexOf(value);
      if (name === "first" || name === "second") state[name] = run >= 0 ? run : state[name];
      else if (name === "page") state.page = Number(value) || 0;
      else if (name === "query" || (name === "only" && value in kinds)) state[name] = value;
    }
  }

  function build() {
    const query = element("input", {type: "search", placeholder: "in any text or class", value: state.query,
      oninput: () => change("query")(query.value)});
    const savedRows = () => [["example", "class", "text", ...data.runs.flatMap((name) => [`said by ${name}`, `probability of ${name}`])],
      ...found().map((item) => [String(item[0]), item[1], item[2], ...item[ANSWERS].flatMap((said) =>
        (said ? [said[0], String(said[1])] : [item[1], ""]))])];
    holder.replaceChildren(element("div", {class: "controls", role: "group", "aria-label": "Which texts are shown"},
      element("label", {class: "wide"}, element("span", {}, "Find"), query),
      selection("Compare", runs, String(state.first), change("first", Number)),
      selection("with", runs, String(state.second), change("second", Number)),
      selection("Only", only, state.only, change("only")),
      element("button", {type: "button", onclick: () => save(fileName(holder.dataset.source), csvText(savedRows()))},
        "Save these as CSV")), status, list, element("div", {class: "pages"}, previous, next));
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

document.querySelectorAll(".mistakes").forEach(startMistakes);
