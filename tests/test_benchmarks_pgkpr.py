"""Parity with the public PGKPR code, shown with stand-ins: what is read, weights carried over, errors that say how."""

import shutil
from pathlib import Path

import pytest
import torch

import benchmarks.__main__ as command
from benchmarks import pgkpr_parity
from benchmarks.__main__ import NAMES, main
from benchmarks.harness import Context, Disagreement
from benchmarks.pgkpr_parity import Finding, Given, definitions, loaded, module_of, report
from benchmarks.reporting import as_markdown, machine
from keycontrast.errors import InputError


@pytest.fixture
def peer(tmp_path):
    """A folder with the modules of the public code that are imported, all of them the stand-in."""
    folder = tmp_path / "peer"
    (folder / "Model" / "transformer").mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "stand_in_pgkpr.py", folder / "Model" / "SPTransformerFine.py")
    for name in ("model", "train"):
        (folder / "Model" / "transformer" / f"{name}.py").write_text("from Model.SPTransformerFine import *\n")
    return folder


def test_the_carried_model_computes_what_theirs_does(peer, reader, tmp_path):
    given = Given(reader, tmp_path)
    theirs = pgkpr_parity.shaken(pgkpr_parity.their_model(peer, given.listed.size)).eval()
    mine = pgkpr_parity.carried(theirs, given.listed.size).eval()
    assert sum(p.numel() for p in mine.parameters()) == sum(p.numel() for p in theirs.parameters())
    items = range(len(given.frame))
    source, _, target, _ = pgkpr_parity.their_tensors(given.marked, items)
    read = loaded(peer, "Model.transformer.train").Batch(source, target)
    batch = given.marked.batch(items)
    with torch.no_grad():
        *_, words = theirs(read.src, read.trg, read.src_mask, read.trg_mask)
        own = mine.generator(mine.decode(batch["y_in"], mine.memory(batch, batch["p"].bool())))
    real = batch["y_out"] != 0
    assert torch.allclose(own.log_softmax(-1)[real], words.log_softmax(-1)[:, :own.shape[1]][real], atol=1e-4)


def test_what_the_public_code_reads_is_what_ours_reads_padded_to_its_length(reader, tmp_path):
    pairs_of_both = Given(reader, tmp_path).marked
    ids, labels, targets, pairs = pgkpr_parity.their_tensors(pairs_of_both, [2, 0])
    batch = pairs_of_both.batch([2, 0])
    assert {part.shape for part in (ids, labels, targets, pairs)} == {(2, 37)}
    for row in range(2):
        words = int(batch["x_lengths"][row])
        assert int((ids[row] != 0).sum()) == int((labels[row] != 0).sum()) == 2 * words + 3
        mask = batch["p"][row, :words].bool()
        read = torch.where(mask, batch["x_ids"][row, :words], batch["x_tags"][row, :words])
        assert ids[row, 1:words + 1].tolist() == read.tolist()
        assert labels[row, 1:words + 1].tolist() == batch["x_tags"][row, :words].tolist()
        target = batch["t_ids"][row, :batch["t_lengths"][row]].tolist()
        assert targets[row, :len(target) + 2].tolist() == [2, *target, 3] and not targets[row, len(target) + 2:].any()
        assert pairs[row, len(target) + 2:2 * len(target) + 2].tolist() == target


def test_without_a_folder_it_is_left_out_or_says_where_to_get_it(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(command, "run_apart", lambda name, context: ran.append(name) or [])
    assert main([]) == 0 and ran == [name for name in NAMES if name != "pgkpr_parity"]
    assert "pgkpr_parity is left out: it needs --peer, a checkout of github.com/DaSESmartEdu/PGKPR" in (
        capsys.readouterr().err)
    assert main(["pgkpr_parity"]) == 1
    assert "pgkpr_parity: name a checkout of github.com/DaSESmartEdu/PGKPR" in capsys.readouterr().err
    assert main(["pgkpr_parity", "--peer", "nowhere"]) == 1
    assert "--peer: nowhere is no folder; name a checkout of github.com/DaSESmartEdu/PGKPR" in capsys.readouterr().err
    with pytest.raises(InputError, match="DaSESmartEdu/PGKPR .* with --peer"):
        pgkpr_parity.run(Context(quick=True))


def test_with_a_folder_it_is_among_all(monkeypatch, tmp_path, capsys):
    ran = []
    monkeypatch.setattr(command, "run_apart", lambda name, context: ran.append((name, context.peer)) or [])
    assert main(["--peer", str(tmp_path)]) == 0 and ran == [(name, tmp_path) for name in NAMES]
    assert capsys.readouterr().err == ""


def test_the_document_says_how_to_measure_it_again():
    page = as_markdown({"pgkpr_parity": [], "graph": []}, machine())
    assert "`python -m benchmarks pgkpr_parity --peer DIR`" in page and "`python -m benchmarks graph`" in page


def test_a_folder_of_something_else_is_named(peer):
    broken = peer / "Model" / "transformer" / "train.py"
    broken.write_text("import no_such_package\n")
    with pytest.raises(InputError, match=r"cannot be imported: No module named 'no_such_package'\. Name a checkout of"):
        loaded(peer, "Model.transformer.train")
    broken.unlink()
    with pytest.raises(InputError, match=r"train\.py is missing; name a checkout of github\.com/DaSESmartEdu/PGKPR"):
        loaded(peer, "Model.transformer.train")


# Parity, part by part


SCRIPT = """
import a_package_that_nobody_has
random.seed(0)
def kw_by_posibility(df, mode, random_seed):
    random.seed(random_seed)
    rows = zip(df.bert_sen1, df[f"{mode}_scores"])
    return [[word for word, score in zip(text.split(), scores.split()) if float(score) > random.random()]
            for text, scores in rows]
"""
SWITCH = """
import pandas as pd
class SwitchPOS:
    def __init__(self, path):
        self.df = pd.read_csv(path)
    @staticmethod
    def word_to_index(text, words):
        return " ".join(str(place) for place, word in enumerate(text.split()) if word in words) or "-1"
    def set_s_index(self, places):
        self.df["s_index"] = places
    def to_csv(self, path):
        self.df.to_csv(path, index=False)
"""
LOADER = """
import pandas as pd
import torch
POS_TAG = ["[WRB]", "[VBZ]", "[VBP]", "[MD]", "[PRP]", "[DT]", "[JJ]", "[VB]", "[NN]", "[NNS]", "[IN]", "[RB]",
           "[VBG]", "[CC]", "[.]"]
def loadVocab(path):
    words = ["[pad]", "[unk]", "<s>", "</s>", "<sep>", "[unkey]", *map(str.lower, POS_TAG), *open(path).read().split()]
    return {word: number for number, word in enumerate(words)}, dict(enumerate(words))
def load_data_tensor_con(path, vocabulary, longest):
    numbers, found = loadVocab(vocabulary)[0], ([], [], [], [])
    for row in pd.read_csv(path, dtype={"s_index": str}).itertuples():
        words, tags, others, their_tags = (text.lower().split()[:longest]
                                           for text in (row.sen1, row.pos1, row.sen2, row.pos2))
        chosen = [str(place) in row.s_index.split() for place in range(len(words))]
        first = [word if key else tag for word, tag, key in zip(words, tags, chosen)]
        second = [tag if key else word for word, tag, key in zip(words, tags, chosen)]
        kept = [word if key else "[unkey]" for word, key in zip(words, chosen)]
        for rows, texts in zip(found, (first + ["<sep>"] + second, tags + ["<sep>"] + kept, others,
                                       their_tags + ["<sep>"] + others)):
            ids = [numbers.get(token, 1) for token in ["<s>", *texts, "</s>"]]
            rows.append(ids + [0] * (2 * longest + 3 - len(ids)))
    return tuple(map(torch.tensor, found))
"""
NORMALISE = """
def normalize_txt(texts, numbers, tokens, unknown):
    return [[word if word in numbers else unknown for word in text.split()][:16] for text in texts]
"""


@pytest.fixture
def reader(tmp_path):
    """A folder whose loader is a stand-in, with the outside of the public code's."""
    folder = tmp_path / "reader"
    files = {"stage_two_data.py": SCRIPT, "Data/switchpos.py": SWITCH, "dataloader.py": LOADER,
             "evaluation.py": NORMALISE}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def test_what_is_read_is_the_same_or_named(reader, tmp_path):
    findings = list(pgkpr_parity.sequences(Given(reader, tmp_path)))
    assert [finding.switch for finding in findings if not finding.same] == [
        "train_pgkpr.keywords.mark_all", "none: docs/pgkpr.md, Which tags?", "none: docs/pgkpr.md, Without a switch"]
    section = report(findings, 36)
    assert "5 of 8 comparisons show no difference" in section.agreement and not section.rows
    assert section.table[0]["largest difference"] == "0" and section.table[0]["switch"] == "–"


def test_a_loader_that_reads_something_else_is_found(reader, tmp_path):
    script = reader / "dataloader.py"
    script.write_text(script.read_text().replace('else "[unkey]"', "else word"), encoding="utf-8")
    with pytest.raises(Disagreement, match=r"no switch says why: what is reconstructed \(train_pgkpr\.preset released"):
        report(list(pgkpr_parity.sequences(Given(reader, tmp_path))), 36)


def test_rounding_is_no_difference_and_a_number_that_is_none_is_one():
    assert report([Finding("a", "", "", 1e-6, rounding=2e-5)], 1).table[0]["largest difference"] == (
        "1e-06 (rounding up to 2e-05)")
    for gap in (3e-5, float("nan")):
        with pytest.raises(Disagreement, match="a "):
            report([Finding("a", "", "", gap, rounding=2e-5)], 1)
        assert report([Finding("a", "", "", gap, "some.switch", 2e-5)], 1).table[0]["switch"] == "some.switch"


def test_scripts_are_taken_apart_and_not_run(reader):
    with pytest.raises(InputError, match=r"stage_two_data\.py cannot be imported: No module named 'a_package"):
        module_of(reader, "stage_two_data.py")
    with pytest.raises(InputError, match=r"stage_two_data\.py has no merge; name a checkout of the commit"):
        definitions(reader, "stage_two_data.py", ("kw_by_posibility", "merge"), {})
    with pytest.raises(InputError, match=r"nowhere\.py is missing; name a checkout of"):
        definitions(reader, "nowhere.py", (), {})
