// Keywords and new words in a text. The rules for keywords are those of stages/results/page/examples.py.

const KEYWORD = 1;
const NEW = 2;
const LONG = 600;   // words from which on a comparison word by word would take too long
const NO_KEYWORD = "<nokw>";

const spaced = (letter) => /[\p{L}\p{N}_]/u.test(letter) && !/[\u3040-\u9fff]/.test(letter);

function keywordPattern(keywords) {
  const known = [...new Set(keywords)].filter((word) => word && word !== NO_KEYWORD && word.trim())
    .sort((one, other) => other.length - one.length || (one < other ? -1 : 1));
  const patterns = known.map((word) => {
    const inner = word.trim().split(/\s+/).map((part) => part.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("\\s+");
    const letters = [...word];
    return (spaced(letters[0]) ? "(?<![\\p{L}\\p{N}_])" : "") + inner
      + (spaced(letters[letters.length - 1]) ? "(?![\\p{L}\\p{N}_])" : "");
  });
  return patterns.length ? new RegExp(patterns.join("|"), "giu") : null;
}

/** Words with their places; a Chinese or Japanese letter is a word. */
function words(text) {
  const found = [];
  for (const match of text.matchAll(/[\u3040-\u9fff]|(?:(?![\u3040-\u9fff])[\p{L}\p{M}\p{N}_'’])+/gu)) {
    found.push({word: match[0].toLowerCase(), start: match.index, end: match.index + match[0].length});
  }
  return found;
}

/** The words of `one` that no longest common subsequence with `other` holds. */
function newWords(one, other) {
  if (one.length > LONG || other.length > LONG) {
    const known = new Set(other.map((part) => part.word));
    return one.filter((part) => !known.has(part.word));
  }
  const width = other.length + 1;
  const lengths = new Uint16Array((one.length + 1) * width);
  for (let row = one.length - 1; row >= 0; row -= 1) {
    for (let column = other.length - 1; column >= 0; column -= 1) {
      lengths[row * width + column] = one[row].word === other[column].word
        ? lengths[(row + 1) * width + column + 1] + 1
        : Math.max(lengths[(row + 1) * width + column], lengths[row * width + column + 1]);
    }
  }
  const fresh = [];
  for (let row = 0, column = 0; row < one.length;) {
    if (column < other.length && one[row].word === other[column].word) {
      row += 1;
      column += 1;
    } else if (column === other.length || lengths[(row + 1) * width + column] >= lengths[row * width + column + 1]) {
      fresh.push(one[row]);
      row += 1;
    } else {
      column += 1;
    }
  }
  return fresh;
}

/** `text` as nodes: keywords in <mark>, words that `other` lacks in <ins>; `other` null marks no words. */
function marked(text, keywords, other = null) {
  if (!text) return [element("span", {class: "quiet"}, "(empty)")];
  const flags = new Uint8Array(text.length);
  const pattern = keywordPattern(keywords);
  for (const match of pattern ? text.matchAll(pattern) : []) {
    flags.fill(KEYWORD, match.index, match.index + match[0].length);
  }
  for (const part of other === null ? [] : newWords(words(text), words(other))) {
    for (let place = part.start; place < part.end; place += 1) flags[place] |= NEW;
  }
  const nodes = [];
  for (let start = 0, end = 0; start < text.length; start = end) {
    while (end < text.length && flags[end] === flags[start]) end += 1;
    const piece = text.slice(start, end);
    const fresh = flags[start] & NEW ? element("ins", {}, piece) : piece;
    nodes.push(flags[start] & KEYWORD ? element("mark", {}, fresh) : fresh);
  }
  return nodes;
}
