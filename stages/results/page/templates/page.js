// The explorer of phrases beside the map, and the notes on parts of plots. Data enter as text, never as markup.

/** element("p", {class: "small", onclick: act}, "text", another) */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** `text` as nodes, the keyword in <mark>: whole words, but for Chinese and Japanese, as in page/examples.py. */
function marked(text, keyword) {
  const spaced = (letter) => /[\p{L}\p{N}_]/u.test(letter) && !/[\u3040-\u9fff]/.test(letter);
  const inner = keyword.split(/\s+/).map((part) => part.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("\\s+");
  const letters = [...keyword];
  const before = spaced(letters[0]) ? "(?<![\\p{L}\\p{N}_])" : "";
  const after = spaced(letters.at(-1)) ? "(?![\\p{L}\\p{N}_])" : "";
  return text.split(new RegExp(`${before}(${inner})${after}`, "giu"))
    .map((piece, place) => (place % 2 ? element("mark", {}, piece) : piece));
}

/** The panel beside the map: a phrase, its neighbours and some of its texts. */
function describe(data, place, language, follow) {
  const [texts, degree, flat, held] = data.nodes[place];
  const name = data.names[place];
  const rows = [];
  for (let at = 0; at < flat.length; at += 2) {
    const [other, count] = [flat[at], flat[at + 1]];
    const inside = [element("bdi", {}, data.names[other]), element("span", {class: "count"}, String(count))];
    const row = other < data.nodes.length
      ? element("button", {type: "button", onclick: () => follow(other)}, ...inside)
      : element("span", {title: "not among the phrases that can be opened here"}, ...inside);
    row.style.setProperty("--share", `${Math.round(100 * count / flat[1])}%`);
    rows.push(element("li", {}, row));
  }
  const shown = rows.length < degree ? `, the strongest ${rows.length}` : "";
  const articles = held.map((text) => element("p", {dir: "auto", lang: language}, ...marked(data.texts[text][1], name)));
  return [
    element("p", {class: "chosen", tabindex: "-1"}, element("strong", {}, element("bdi", {}, name)),
      ` is in ${counted(texts, "text")}`),
    element("p", {class: "small"}, `${counted(degree, "neighbour")}${shown}, with the texts in common`),
    element("ul", {class: "neighbours"}, ...rows),
    ...(articles.length ? [element("details", {class: "texts-of"},
      element("summary", {}, articles.length < texts ? `${articles.length} of its texts` : "Its texts"), ...articles)] : []),
  ];
}

function startExplorer(holder) {
  const data = JSON.parse(document.getElementById(holder.dataset.source).textContent);
  const panel = holder.querySelector(".panel");
  const status = element("span", {class: "small quiet", "aria-live": "polite"});
  const lower = data.names.slice(0, data.nodes.length).map((name) => name.toLowerCase());

  /** Describe the phrase at `place` in the panel and, if `drawn`, mark it, its edges and its neighbours on the map. */
  function open(place, drawn = true) {
    panel.replaceChildren(...describe(data, place, holder.dataset.language, (next) => {
      open(next);
      panel.querySelector(".chosen").focus({preventScroll: true});
    }));
    panel.scrollTop = 0;
    if (!drawn) return;
    const near = new Set([place]);
    for (const line of holder.querySelectorAll("line")) {
      const ends = line.dataset.ends.split(" ").map(Number);
      line.classList.toggle("near", ends.includes(place));
      if (ends.includes(place)) ends.forEach((end) => near.add(end));
    }
    for (const box of holder.querySelectorAll("[data-place]")) {
      box.classList.toggle("near", near.has(Number(box.dataset.place)));
      box.classList.toggle("chosen", Number(box.dataset.place) === place);
    }
    for (const map of holder.querySelectorAll(".map")) map.classList.toggle("faint", map.querySelector("g.chosen") !== null);
  }

  /** Both the map and the panel are in sight after a choice. */
  function choose(place) {
    open(place);
    holder.querySelector(".sides").scrollIntoView({block: "nearest"});
  }

  const list = element("datalist", {id: `${holder.dataset.source}-names`},
    ...data.names.slice(0, Math.min(data.nodes.length, 2000)).map((name) => element("option", {value: name})));
  const input = element("input", {type: "search", list: list.id, placeholder: "type a phrase", onchange: () => {
    const wanted = input.value.trim().toLowerCase();
    const ranks = [(name) => name === wanted, (name) => name.startsWith(wanted), (name) => name.includes(wanted)];
    const place = ranks.map((rank) => lower.findIndex(rank)).find((found) => found >= 0) ?? -1;
    status.textContent = place < 0 ? `No phrase here contains “${input.value.trim()}”.` : "";
    if (place >= 0 && wanted) choose(place);
  }});
  holder.querySelector(".sides").before(element("p", {class: "search"}, element("label", {}, "Phrase ", input), list, status));
  for (const box of holder.querySelectorAll("[data-place]")) {
    const place = Number(box.dataset.place);
    box.setAttribute("role", "button");
    box.setAttribute("tabindex", "0");
    box.addEventListener("click", () => choose(place));
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(place);
    });
  }
  panel.hidden = false;
  open(0, false);     // at first the whole map is drawn alike
}

document.querySelectorAll(".explorer").forEach(startExplorer);

for (const part of document.querySelectorAll("svg [data-hint]")) {
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = part.dataset.hint;
  part.prepend(title);
}
