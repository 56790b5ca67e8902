"""The results as tables, for a terminal and for the document."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.gpu.runner import Part

NO_GPU = ("These are no figures of a GPU: they were taken on a CPU at reduced size, and show that every part runs.")
_SAID = {
    "agreement": "One micro-batch without dropout, and greedy outputs (classes), on the device and on the CPU in fp32, "
                 "from the same weights. Apart: of the loss, relative; of the gradient, norm of the difference over "
                 "the norm. Where an output differs, the margin is by how much the CPU prefers its token at the first "
                 "difference. In fp32 each may be 0.001; in bf16 the loss 0.05, and the rest is for information.",
    "training": "The training loop as the stages run it, deterministic algorithms, dropout, clipping and fused Adam "
                "included.",
    "resume": "The same training once more with checkpoints, ended by SIGKILL and gone on with in a new process; all "
              "weights and the history are compared to the bit with the training that ran through."}
_HEADS = ("track", "precision")
Row = dict[str, str]


def report(content: Mapping[str, Any], parts: Sequence[Part]) -> list[str]:
    """Return the lines of the document below its heading."""
    where = content["machine"]
    versions = ", ".join(f"{name} {where[name]}" for name in ("torch", "transformers", "numpy") if where.get(name))
    lines = [f"Device: {where['device']}{_memory(where)}, CUDA {where['cuda'] or 'none'}; {where['cores']} cores, "
             f"Python {where['python']}; {versions}. {content['minutes']:.1f} minutes. Random weights"
             f"{' beside the encoder given' if content['encoder'] else ''}, texts from a seed. Sizes: "
             f"{content['sizes']}."]
    if where["devices"] == 0:
        lines += ["", f"**{NO_GPU}**"]
    if content["precisions"]:
        lines += ["", content["precisions"]]
    for kind, said in _SAID.items():
        rows = [part for part in parts if part.kind == kind]
        if rows:
            lines += ["", f"### {kind.capitalize()}", "", said, "", *_table(rows)]
    return lines


def _memory(where: Mapping[str, Any]) -> str:
    return f" ({where['device GiB']} GiB, {where['devices']} of them)" if where.get("device GiB") else ""


def _table(parts: Sequence[Part]) -> list[str]:
    rows = [{"track": part.track, "precision": part.precision, **(
        _ROWS[part.kind](part.figures) if part.figures else {}), "state": _state(part)} for part in parts]
    heads = list(dict.fromkeys(head for row in sorted(rows, key=len, reverse=True) for head in row if head != "state"))
    heads.append("state")
    return [f"| {' | '.join(heads)} |", f"|{' --- |' * 2}{' ---: |' * (len(heads) - 3)} --- |",
            *(f"| {' | '.join(row.get(head, '') for head in heads)} |" for row in rows)]


def _state(part: Part) -> str:
    return part.state if not part.problem else f"**{part.state}**: {part.problem}".replace("|", "/")


def _agreement(found: Mapping[str, Any]) -> Row:
    return {"loss apart": f"{found['loss apart']:.1e}", "gradient apart": f"{found['gradient apart']:.1e}",
            "equal outputs": f"{found['equal outputs']} of {found['items']}",
            "largest margin": f"{found['largest margin of the others']:.1e}"}


def _training(found: Mapping[str, Any]) -> Row:
    return {"steps": f"{found['steps']}", "batch": f"{found['batch']} ({found['micro-batch']})",
            "per step": _seconds(found["seconds_per_step_median"]), "items/s": f"{found['items_per_second']:,.0f}",
            **({"memory": f"{found['peak MiB of the device']:,.0f} MiB"} if "peak MiB of the device" in found else {}),
            "loss, epochs 1 and 2": " and ".join(f"{loss:.3f}" for loss in found["losses"])}


def _resume(found: Mapping[str, Any]) -> Row:
    return {"steps": f"{found['steps']}", "killed at": f"{found['killed at']}",
            "went on from": f"{found['resumed at']}", "equal bytes": "yes" if found["equal bytes"] else "no",
            "checkpoint": f"{found['checkpoint MiB']:,.0f} MiB",
            "to save it": _seconds(found["seconds per checkpoint"])}


_ROWS: dict[str, Callable[[Mapping[str, Any]], Row]] = {
    "agreement": _agreement, "training": _training, "resume": _resume}


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"
