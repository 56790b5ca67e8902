// Making elements. Whatever comes from data enters as text or as an attribute's value, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** element("p", {class: "small", onclick: act}, "text", another) */
function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** The JSON that stands in the element `id`; null where there is none. */
function embedded(id) {
  const holder = document.getElementById(id);
  return holder && JSON.parse(holder.textContent);
}

/** What the address says of the element `id`, as #id?name=value; null if it names another. */
function addressed(id) {
  const [own, query = ""] = location.hash.slice(1).split("?");
  return decodeURIComponent(own) === id ? new URLSearchParams(query) : null;
}

/** Let the address name the element `id` as it is now, so that it can be sent to somebody. */
function readdress(id, values = {}) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== null)).toString();
  history.replaceState(null, "", `#${encodeURIComponent(id)}${query ? `?${query}` : ""}`);
}

const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** A labelled select; `options` are [value, text]. */
function selection(label, options, value, change) {
  const select = element("select", {onchange: () => change(select.value)},
    ...options.map(([key, text]) => element("option", {value: key}, text)));
  select.value = value;
  return element("label", {}, element("span", {}, label), select);
}
