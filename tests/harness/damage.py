"""Ways to damage a text, bytes or a nested value, drawn at random."""

import copy
import random
from typing import Any

TOKENS = [
    "", "\0", "\x1b[31m", "\ufeff", "\u202e", "\x85", "é", "中文", "💥", "\"", "'", "\"\"\"", ",", ";", "\t", "\r",
    "\n",
    "{", "}", "[", "]", ": ", "&a ", "*a", "<<: ", "!!int zz", "!!binary é", "!!timestamp x", "!!bool x", "2024-13-45",
    "1:99:99", "0x", "0o9", ".inf", "-.inf", ".nan", "1e30", "-1", "0", "9" * 5000, "null", "~", "true", "=1+1",
    "%s%s%n", "${seed}", "../../etc", "a" * 3000, "[" * 300, "{a: " * 200, "\\u0000", "\\ud800", "NaN", "<script>",
    "--", "#", "|", ">-", "? ", "- "]
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**64, 2**70, -2**70, 0.5, 1e30, -1e30, float("inf"), float("nan"), "", " ",
    "a", "\0", "\x1b[31m", "\ud800", "x" * 5000, "..", "/",
    "hub:", "path:", "characters:", "[SEP]", [], [None], [[]], ["a"],
    ["a", "a"], [1, 2, 3], [True], {}, {"a": 1}, {1: 2}, {None: None}, {"": ""}, {"seed": {"seed": {}}}, b"\xff",
    [float("inf")], "2024-01-01", "13", "1e-3", "null"]


def damaged_bytes(content: bytes, chance: random.Random) -> bytes:
    """Return ``content`` with one to three faults: bits, cuts, repeats, foreign tokens."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        place = chance.randrange(len(content) + 1)
        way = chance.randrange(7)
        if way == 0 and content:
            place = min(place, len(content) - 1)
            content = content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1:]
        elif way == 1:
            content = content[:place]
        elif way == 2:
            content = content[:place] + content[place + chance.randrange(1, 40):]
        elif way == 3:
            content = content[:place] + chance.choice(TOKENS).encode() + content[place:]
        elif way == 4:
            lines = content.splitlines(keepends=True) or [b""]
            one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines.insert(one, lines[other])
            content = b"".join(lines)
        elif way == 5:
            content = content[:place] + chance.randbytes(chance.randrange(1, 9)) + content[place:]
        else:
            lines = content.splitlines(keepends=True) or [b""]
            del lines[chance.randrange(len(lines))]
            content = b"".join(lines)
    return content


def damaged_value(content: Any, chance: random.Random) -> tuple[Any, str]:
    """Return a copy of a nested value with one to three places changed, and words for the changes."""
    content, said = copy.deepcopy(content), []
    for _ in range(chance.choice([1, 1, 2, 3])):
        holder, place, node = None, [], content
        while isinstance(node, dict | list) and node and (holder is None or chance.random() < 0.8):
            key = chance.choice(list(node) if isinstance(node, dict) else list(range(len(node))))
            holder, node = node, node[key]
            place.append(key)
        if holder is None:
            return content, "nothing to change"
        way, key = chance.randrange(6), place[-1]
        if way == 0:
            del holder[key]
            said.append(f"delete {place}")
        elif way == 1 and isinstance(holder, dict):
            holder[chance.choice([f"{key}x", 7, None, "", "\x1b[31m", True])] = holder.pop(key)
            said.append(f"rename {place}")
        elif way == 2:
            holder[key] = [node]
            said.append(f"list around {place}")
        elif way == 3:
            holder[key] = {"a": node}
            said.append(f"mapping around {place}")
        else:
            holder[key] = copy.deepcopy(chance.choice(VALUES))
            said.append(f"{place} = {str(holder[key])[:60]!a}")
    return content, "; ".join(said)
