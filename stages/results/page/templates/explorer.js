// The explorer: look a phrase up, see its neighbours, go on to one of them, open its texts.

const SUGGESTED = 8;
const DRAWN = 12;       // neighbours in the picture; the list has all

/** Neighbours as [{place, count}], the strongest first. */
function neighboursOf(node) {
  const flat = node[2];
  const found = [];
  for (let at = 0; at < flat.length; at += 2) found.push({place: flat[at], count: flat[at + 1]});
  return found;
}

/** A box for text with suggestions below it (ARIA combobox with a listbox). */
function combobox(id, label, suggest, choose) {
  const list = element("ul", {id: `${id}-list`, role: "listbox", "aria-label": label, hidden: true});
  const input = element("input", {
    id, type: "search", role: "combobox", autocomplete: "off", spellcheck: "false", "aria-expanded": "false",
    "aria-controls": `${id}-list`, "aria-autocomplete": "list", placeholder: "type a phrase"});
  let options = [];
  let active = -1;

  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const pick = (place) => {
    close();
    choose(place);
  };
  const point = (place) => {
    active = place;
    [...list.children].forEach((row, own) => row.setAttribute("aria-selected", String(own === place)));
    if (place >= 0) input.setAttribute("aria-activedescendant", list.children[place].id);
    else input.removeAttribute("aria-activedescendant");
  };
  const open = () => {
    options = suggest(input.value);
    list.replaceChildren(...options.map(({place, name, note}, own) => element("li", {
      id: `${id}-${own}`, role: "option", "aria-selected": "false",
      // Before the box loses the focus, which closes the list.
      onpointerdown: (event) => { event.preventDefault(); pick(place); },
    }, element("bdi", {}, name), element("span", {class: "quiet"}, note))));
    list.hidden = !options.length;
    input.setAttribute("aria-expanded", String(options.length > 0));
    point(-1);
  };
  input.addEventListener("input", open);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) open();
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (options.length) point((active + step + options.length) % options.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (list.hidden) open();
      if (options.length) pick(options[Math.max(active, 0)].place);
    } else if (event.key === "Escape") {
      close();
    }
  });
  return {box: element("div", {class: "combobox"}, element("label", {for: id}, label), input, list), input};
}

/** The neighbourhood as a picture of `width` pixels: neighbours to the right and to the left, in turn. */
function neighbourhoodDrawing(name, neighbours, width, follow) {
  const drawn = neighbours.slice(0, DRAWN);
  const height = 30 * Math.max(3, Math.ceil(drawn.length / 2)) + 40;
  const reach = Math.min(width / 2 - 70, Math.max(56, width / 5));
  const letters = Math.max(6, Math.floor((width / 2 - reach - 16) / 7));
  const cut = (text) => ([...text].length > letters ? `${[...text].slice(0, letters - 1).join("")}…` : text);
  const picture = shape("svg", {class: "radial", width, height, viewBox: `${-width / 2} ${-height / 2} ${width} ${height}`,
    role: "group", "aria-label": `Neighbours of ${name}`});
  drawn.forEach((neighbour, number) => {
    const way = number % 2 === 0 ? 1 : -1;
    const rows = Math.ceil((drawn.length - number % 2) / 2);
    const level = rows === 1 ? 0 : 2 * Math.floor(number / 2) / (rows - 1) - 1;
    const y = level * (height / 2 - 24);
    const x = way * reach * (1 - 0.3 * level * level);
    const note = `${neighbour.name}, in ${counted(neighbour.count, "text")} of both`;
    const node = shape("g", {class: neighbour.open ? null : "closed", role: neighbour.open ? "button" : null,
      tabindex: neighbour.open ? "0" : null, "data-hint": note, "aria-label": note},
    shape("path", {d: `M${x} ${y}Q${x / 2} ${y * 0.85} 0 0`,
      "stroke-width": (1 + 1.2 * Math.log2(1 + neighbour.count)).toFixed(2)}),
    shape("circle", {cx: x, cy: y, r: 5}),
    shape("text", {x: x + way * 10, y: y + 4.5, "text-anchor": way > 0 ? "start" : "end"}, cut(neighbour.name)));
    if (neighbour.open) {
      node.addEventListener("click", () => follow(neighbour.place));
      node.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        follow(neighbour.place);
      });
    }
    picture.append(node);
  });
  picture.append(shape("circle", {class: "middle", r: 8}),
    shape("text", {class: "middle", y: -16, "text-anchor": "middle"}, cut(name)));
  return picture;
}

/** The list of neighbours; those that can be opened are buttons, with a bar as long as their count. */
function neighbourList(neighbours, total, follow) {
  const most = Math.max(1, ...neighbours.map((neighbour) => neighbour.count));
  const rows = neighbours.map((neighbour) => {
    const inside = [element("bdi", {}, neighbour.name), element("span", {class: "count"}, String(neighbour.count))];
    const row = neighbour.open
      ? element("button", {type: "button", onclick: () => follow(neighbour.place)}, ...inside)
      : element("span", {class: "closed", title: "not among the phrases that can be opened here"}, ...inside);
    row.style.setProperty("--share", `${Math.round(100 * neighbour.count / most)}%`);
    return element("li", {}, row);
  });
  const more = total > neighbours.length ? ` (${neighbours.length} of ${total} here)` : "";
  return element("div", {class: "neighbours"}, element("h5", {}, `${counted(total, "neighbour")}${more}`),
    rows.length ? element("ul", {}, ...rows) : element("p", {class: "quiet small"}, "none"));
}

/** `text` as nodes, the keyword in <mark>: whole words, but for Chinese and Japanese, as in page/examples.py. */
function marked(text, keyword) {
  if (!text) return [element("span", {class: "quiet"}, "(empty)")];
  const spaced = (letter) => /[\p{L}\p{N}_]/u.test(letter) && !/[\u3040-\u9fff]/.test(letter);
  const inner = keyword.split(/\s+/).map((part) => part.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("\\s+");
  const letters = [...keyword];
  const pattern = new RegExp(`${spaced(letters[0]) ? "(?<![\\p{L}\\p{N}_])" : ""}(${inner})${spaced(letters.at(-1)) ? "(?![\\p{L}\\p{N}_])" : ""}`, "giu");
  return text.split(pattern).map((piece, place) => (place % 2 ? element("mark", {}, piece) : piece));
}

function startExplorer(holder) {
  const data = embedded(holder.dataset.source);
  const openable = data.nodes.length;
  const lower = data.names.slice(0, openable).map((name) => name.toLowerCase());
  const past = [];
  let current = null;
  let begun = false;      // at first the whole map is in sight, and nothing chosen on it
  const view = element("div", {class: "view"});
  const map = startMap(holder, data, (place) => show(place, true));
  const status = element("p", {class: "quiet small", "aria-live": "polite"});

  const suggest = (typed) => {
    const wanted = typed.trim().toLowerCase();
    const places = lower.map((_, place) => place).filter((place) => lower[place].includes(wanted));
    const rank = (place) => (lower[place] === wanted ? 0 : lower[place].startsWith(wanted) ? 1 : 2);
    places.sort((one, other) => rank(one) - rank(other) || one - other);
    status.textContent = places.length ? "" : `No phrase here contains “${typed.trim()}”.`;
    return places.slice(0, SUGGESTED).map((place) => ({
      place, name: data.names[place], note: counted(data.nodes[place][0], "text")}));
  };
  const search = combobox(`${holder.dataset.source}-search`, "Phrase", suggest, (place) => show(place, true));
  const back = element("button", {type: "button", class: "back", disabled: true, onclick: () => {
    current = null;
    show(past.pop(), false);
  }}, "Back");
  const start = element("p", {class: "start small"}, "Most texts: ", ...data.names.slice(0, Math.min(openable, 8))
    .flatMap((name, place) => [element("button", {type: "button", onclick: () => show(place, true)},
      element("bdi", {}, name)), " "]));

  function show(place, keep) {
    if (keep && current !== null && current !== place) past.push(current);
    current = place;
    back.disabled = past.length === 0;
    const node = data.nodes[place];
    const name = data.names[place];
    search.input.value = name;
    if (begun) map?.choose(place);
    begun = true;
    const follow = (next) => {
      show(next, true);
      view.querySelector("h4").focus();
    };
    const neighbours = neighboursOf(node).map((neighbour) => ({
      ...neighbour, name: data.names[neighbour.place], open: neighbour.place < openable}));
    const drawing = element("div", {class: "drawing"});
    view.replaceChildren(
      element("h4", {tabindex: "-1"}, element("bdi", {}, name)),
      element("p", {class: "small"}, `In ${counted(node[0], "text")}; shares texts with ${counted(node[1], "phrase")}.`),
      textsOf(node, name),
      drawing,
      neighbourList(neighbours, node[1], follow));
    const draw = () => drawing.replaceChildren(
      neighbourhoodDrawing(name, neighbours, Math.max(260, Math.min(drawing.clientWidth, 760)), follow));
    if (neighbours.length) {
      draw();
      view.redraw = draw;
    } else {
      view.redraw = null;
    }
  }

  function textsOf(node, name) {
    const rows = node[3].map((place) => data.texts[place]);
    const texts = element("div", {class: "examples", hidden: true}, ...rows.map(([number, text]) => element("article",
      {lang: holder.dataset.language}, element("h5", {lang: "en"}, `Text ${number}`),
      element("p", {dir: "auto"}, ...marked(text, name)))));
    const some = rows.length < node[0] ? `${rows.length} of ` : "";
    const label = (open) => `${open ? "Close" : "Open"} ${some}${counted(node[0], "text")}`;
    const button = element("button", {type: "button", class: "open", "aria-expanded": "false", onclick: () => {
      texts.hidden = !texts.hidden;
      button.setAttribute("aria-expanded", String(!texts.hidden));
      button.textContent = label(!texts.hidden);
    }}, label(false));
    const left = node[0] && !rows.length ? element("p", {class: "small quiet"},
      "Its texts are left out here, to keep the page small.") : null;
    return element("div", {}, rows.length ? button : left, texts);
  }

  holder.replaceChildren(element("div", {class: "bar"}, search.box, back), status, start, map?.box ?? noMap(), view);
  map?.begin();
  show(0, true);
  let width = view.clientWidth;
  new ResizeObserver(() => {
    if (view.clientWidth === width) return;
    width = view.clientWidth;
    view.redraw?.();
  }).observe(view);
}

document.querySelectorAll(".explorer").forEach(startExplorer);
