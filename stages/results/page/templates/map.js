// The map of the phrase graph: drawn by sigma over a graph of graphology, both in the page.

const COMMUNITY = 6;        // place of the community in a node's row; before it x and y
const COLOURS = ["first", "second", "violet", "ochre", "olive", "slate"];
const MANY_EDGES = 12000;   // from which on lines are left out while the map moves
const NEAR = 0.25;          // of the map, around a keyword that was chosen

const noMap = () => element("p", {class: "small quiet"},
  "This browser cannot draw the map: it needs WebGL. Everything else works without it.");

/** A colour of the page as WebGL reads it; of a paler one, `share` is left and the rest is paper. */
function pageColour(name, share = 1) {
  const probe = element("span", {hidden: true});
  document.body.append(probe);
  const [own, paper] = [name, "paper"].map((one) => {
    probe.style.color = `var(--${one})`;
    return getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  });
  probe.remove();
  return `rgb(${own.map((value, place) => Math.round(share * value + (1 - share) * paper[place])).join(", ")})`;
}

/** Communities of three and more by their number, the largest first: keywords, the largest of them, and a colour. */
function communitiesOf(data) {
  const sizes = new Map();
  data.nodes.forEach((node, place) => {
    const found = sizes.get(node[COMMUNITY]) ?? {count: 0, name: data.names[place], first: place};
    found.count += 1;
    sizes.set(node[COMMUNITY], found);
  });
  const largest = [...sizes].filter(([, found]) => found.count > 2).sort((one, other) => other[1].count - one[1].count);
  return new Map(largest.map(([number, found], rank) => [number, {...found, colour: COLOURS[rank % COLOURS.length]}]));
}

/** The map with its buttons; null where nothing can draw it. `follow` is called with the place of a pressed keyword. */
function startMap(holder, data, follow) {
  if (typeof Sigma === "undefined" || typeof graphology === "undefined") return null;
  const communities = communitiesOf(data);
  const graph = new graphology.UndirectedGraph();
  const largest = Math.max(1, ...data.nodes.map((node) => node[0]));
  data.nodes.forEach((node, place) => graph.addNode(place, {
    x: node[4], y: -node[5], label: data.names[place], community: node[COMMUNITY],
    size: (graph.order > 3000 ? 1.5 : 2) + 5 * Math.sqrt(node[0] / largest)}));
  data.nodes.forEach((node, place) => neighboursOf(node).forEach((neighbour) => {
    if (neighbour.place < data.nodes.length) graph.mergeEdge(neighbour.place, place, {size: 1});
  }));

  const drawing = element("div", {class: "canvas", role: "img", "aria-label": `Map of ${counted(graph.order, "phrase")}; `
    + "the box above it finds one by keyboard, and the table below lists the largest"});
  const legend = element("ul", {class: "legend communities", "aria-label": "Largest communities"},
    ...[...communities.values()].slice(0, COLOURS.length).map(({name, count, first, colour}) => element("li", {},
      element("button", {type: "button", onclick: () => follow(first)},
        element("span", {class: `dot ${colour}`}), element("bdi", {}, name),
        element("span", {class: "count"}, String(count))))));
  let sigma = null;
  let chosen = null;
  let near = new Set();
  let colours = {};
  const duration = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 400;
  const move = (state) => (duration ? sigma.getCamera().animate(state, {duration}) : sigma.getCamera().setState(
    {...sigma.getCamera().getState(), ...state}));
  const zoom = (factor) => move({ratio: sigma.getCamera().getState().ratio * factor});
  const button = (text, label, act) => element("button", {type: "button", "aria-label": label, onclick: act}, text);
  const box = element("div", {class: "graphmap"}, drawing,
    element("div", {class: "zoom", role: "group", "aria-label": "Map"}, button("+", "Nearer", () => zoom(1 / 1.6)),
      button("−", "Farther", () => zoom(1.6)), button("Whole", "Whole map", () => move({x: 0.5, y: 0.5, ratio: 1}))),
    communities.size ? element("p", {class: "small quiet"}, "Largest communities, by their largest phrase:") : null,
    communities.size ? legend : null);

  function readColours() {
    colours = {ink: pageColour("ink"), muted: pageColour("muted"), line: pageColour("line"), paper: pageColour("paper"),
      edge: pageColour("good", 0.6), strong: pageColour("good"), faint: pageColour("good", 0.25),
      plain: pageColour("edge")};
    for (const {colour} of communities.values()) colours[colour] = pageColour(colour);
  }

  function hover(context, node, settings) {
    context.font = `${settings.labelWeight} ${settings.labelSize}px ${settings.labelFont}`;
    const width = context.measureText(node.label).width;
    context.fillStyle = colours.paper;
    context.fillRect(node.x + node.size + 1, node.y - settings.labelSize, width + 6, settings.labelSize * 1.7);
    context.fillStyle = colours.ink;
    context.fillText(node.label, node.x + node.size + 4, node.y + settings.labelSize / 3);
  }

  /** Draw for the first time: the box has its size only when it stands in the page. */
  function begin() {
    readColours();
    sigma = new Sigma(graph, drawing, {
      defaultEdgeType: "line", edgeProgramClasses: {line: Sigma.rendering.EdgeRectangleProgram},
      // A point each, and not three corners: five times as fast where a processor does the work of graphics.
      nodeProgramClasses: {circle: Sigma.rendering.NodePointProgram},
      hideEdgesOnMove: graph.size > MANY_EDGES, labelFont: getComputedStyle(document.body).fontFamily, labelSize: 13,
      labelRenderedSizeThreshold: 5, labelDensity: 0.6, minCameraRatio: 0.02, maxCameraRatio: 3, zIndex: true,
      minEdgeThickness: 1, defaultDrawNodeHover: hover, labelColor: {attribute: "ink", color: colours.ink},
      nodeReducer: (node, own) => {
        const colour = colours[communities.get(own.community)?.colour] ?? colours.plain;
        if (chosen === null) return {...own, color: colour, ink: colours.ink};
        if (Number(node) === chosen) return {...own, color: colours.ink, ink: colours.ink, size: own.size + 4, forceLabel: true, zIndex: 2};
        if (near.has(node)) return {...own, color: colour, ink: colours.ink, forceLabel: true, zIndex: 1};
        return {...own, color: colour, ink: colours.muted};
      },
      edgeReducer: (edge, own) => {
        const strong = chosen !== null && graph.hasExtremity(edge, String(chosen));
        return {...own, color: colours[strong ? "strong" : chosen === null ? "edge" : "faint"], size: strong ? 3 : 1, zIndex: strong ? 1 : 0};
      },
    });
    sigma.on("clickNode", ({node}) => follow(Number(node)));
    sigma.on("enterNode", () => { drawing.style.cursor = "pointer"; });
    sigma.on("leaveNode", () => { drawing.style.cursor = ""; });
    const repaint = () => {
      readColours();
      sigma.setSetting("labelColor", {attribute: "ink", color: colours.ink});
      sigma.refresh();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    enter(false);
    holder.map = {graph, sigma};
  }

  // Wheel and finger move the page until the reader has pressed on the map: it would be a trap on the way down.
  let entered = false;
  let passing = false;
  const enter = (inside) => {
    entered = inside;
    if (sigma) sigma.getCanvases().mouse.style.touchAction = inside ? "none" : "pan-y";
  };
  drawing.addEventListener("click", () => enter(true));
  drawing.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") enter(true); });
  drawing.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") enter(false); });
  document.addEventListener("pointerdown", (event) => { if (!drawing.contains(event.target)) enter(false); });
  drawing.addEventListener("wheel", (event) => { if (!entered && !event.ctrlKey) event.stopPropagation(); }, {capture: true});
  drawing.addEventListener("touchstart", (event) => { passing = !entered && event.touches.length === 1; }, {capture: true});
  for (const kind of ["touchstart", "touchmove", "touchend"]) {
    drawing.addEventListener(kind, (event) => { if (passing) event.stopPropagation(); }, {capture: true});
  }

  /** Mark a phrase and its neighbours, and bring it into sight. */
  function choose(place) {
    chosen = place;
    near = new Set(graph.neighbors(place));
    sigma.refresh({skipIndexation: true});
    const {x, y} = sigma.getNodeDisplayData(String(place));
    move({x, y, ratio: Math.min(sigma.getCamera().getState().ratio, NEAR)});
  }
  return {box, begin, choose};
}
