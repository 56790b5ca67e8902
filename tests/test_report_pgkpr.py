"""The PGKPR track of the report: its tables, published rows, case study, parts of speech; and HCL beside it."""

import contextlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from report_artifacts import (
    ATTACK,
    IMAGE,
    ITEMS,
    QUESTIONS,
    READ,
    REWRITERS,
    TAGS,
    paraphrase_items,
    provenance,
    write_project,
    write_rewriter,
    write_rewriting,
)
from report_outline import Outline, assert_sound, part, row_of, rows, track

import stages.results.page.context
from pipeline.schemas import SCHEMAS
from stages.common.paths import MODELS, REPORT_PAGE, ModelPaths, RunPaths, row_name
from stages.common.tables import read_frame, write_table
from stages.params import load_params
from stages.results.gather import blocks_of
from stages.results.model import Run
from stages.results.page.cases import case_study, two_parts
from stages.results.page.examples import seeded_examples
from stages.results.page.generations import generations_data
from stages.results.page.material import CASES, DatasetMaterial, PairsMaterial, gather
from stages.results.page.parts_of_speech import PartsOfSpeech, parts_of_speech
from stages.results.report import main
from stages.results.tracks import TRACKS

RUNS = [run if "seeds" not in block else f"{run}/{seed}" for block, runs in REWRITERS.values()
        for seed in block.get("seeds", [13]) for run in runs]


@pytest.fixture(scope="module")
def both(made_report):
    """A project folder with the report of a recipe of both tracks, made once and only read."""
    return made_report("hcl", "pgkpr")


@pytest.fixture
def page(both):
    return (both / REPORT_PAGE).read_text(encoding="utf-8")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of PGKPR alone, without its report; curves are left out of it, because drawing takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stages.results.page.context, "curve_groups", lambda *_: [])
    write_rewriting()
    return tmp_path


# -- two tracks -------------------------------------------------------------------------------------------------

def test_the_page_of_both_is_well_formed_and_stands_alone(page):
    assert_sound(page)
    assert ATTACK not in page and "<img" not in page and "&lt;img src=x onerror=" in track(page, "pgkpr")


def test_hcl_is_the_same_with_pgkpr_beside_it(page, made_report):
    alone = (made_report("hcl") / REPORT_PAGE).read_text(encoding="utf-8")
    assert track(page, "hcl") == track(alone, "hcl") != ""
    assert "pgkpr" not in re.sub("<script.*?</script>", "", alone, flags=re.DOTALL)
    for text in (page, alone):
        assert json.loads(re.search('id="generations-hcl-0">(.*?)</script>', text, re.DOTALL)[1])["total"] == ITEMS


def test_a_recipe_of_pgkpr_alone_has_no_empty_track_of_hcl(project):
    assert main([]) == 0
    text = REPORT_PAGE.read_text(encoding="utf-8")
    Outline(text)
    assert track(text, "hcl") == "" and 'href="#hcl-' not in text
    assert text.index('href="#pgkpr-results"') < text.index('href="#pgkpr-cases"') < text.index('href="#pgkpr-parts"')


def test_models_without_runs_show_their_training_alone(project):
    content = yaml.safe_load(Path("params.yaml").read_text())
    Path("params.yaml").write_text(yaml.safe_dump({**content, "runs": {"pgkpr": {}}}))
    assert main([]) == 0
    text = REPORT_PAGE.read_text(encoding="utf-8")
    assert re.findall(r'<section aria-labelledby="([^"]+)"', text) == ["pgkpr-training", "ran"]
    assert track(text, "hcl") == ""


@pytest.mark.whole
def test_the_same_artifacts_give_the_same_bytes(both, tmp_path, monkeypatch):
    """Made in another folder, by another process under another hash seed."""
    monkeypatch.chdir(tmp_path)
    write_project()
    write_rewriting()
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(stages.__file__).parents[1])}
    subprocess.run([sys.executable, "-m", "stages.results.report"], check=True, env=environment, cwd=tmp_path)
    one, other = ({file.relative_to(folder): file.read_bytes() for file in (folder / "artifacts/report").rglob("*.*")}
                  for folder in (both, tmp_path))
    assert one == other
    names = {file.name for file in one}
    assert {"history--loss.svg", "history--pgkpr--loss.svg", "parts-of-speech--quora.png"} <= names


def test_tracks_on_the_same_items_keep_their_own_comparison():
    def run(name, own):
        metrics = {"run": {"bleu_1": 0.5}, "floors": {}, "counts": {"examples": 3}, "settings": {"split": "test"}}
        return Run(name, own, name, "d", 1, TRACKS[own].row({}, {}), metrics)

    comparison = {"d/test": {"groups": {"hcl": {"runs": ["hcl"]}, "floor copy": {"runs": []}}},
                  "d/test (PGKPR)": {"groups": {"pgkpr": {"runs": ["pgkpr"]}}}}
    found = {key: blocks_of(TRACKS[key], [run(key, key)], {}, comparison, pd.DataFrame(), pd.DataFrame())[0]
             for key in ("hcl", "pgkpr")}
    assert {key: (block.label, block.compared) for key, block in found.items()} == {
        "hcl": ("d/test", ["hcl", "floor copy"]), "pgkpr": ("d/test (PGKPR)", ["pgkpr"])}


# -- results and published rows ---------------------------------------------------------------------------------

def test_the_leading_table_has_released_values_with_raw_ones_beside_them(page):
    results = part(page, "pgkpr-results")
    first = results[results.index("<table"):results.index("</table>") + len("</table>")]
    headings = re.findall(r'<th class="group starts"[^>]*>([^<]+)</th>', first)
    assert headings == ["Corpus BLEU, released", "Corpus BLEU, raw", "ROUGE of py-rouge, released",
                        "ROUGE of py-rouge, raw", "ROUGE of rouge_score, raw", "Rewriting", "Keywords kept"]
    found = {row[0]: row[1:] for row in rows(first) if row}
    assert found["pgkpr/13"][:5] == ["0.6100.550 to 0.650", "0.310", "0.210", "0.160", "0.600"]
    assert found["copy"][:5] == ["0.710", "0.360", "0.243", "0.185", "0.700"]
    assert found["pgkpr/13"][-4:] == ["0.300", "0.400", "0.100", "0.750"]
    # Seeds stand below the runs, with what the comparison knows of them, or else their runs.
    assert found["pgkpr (2 seeds)mean ± sd over seeds"][:2] == ["0.543± 0.012", "0.285± 0.035"]
    assert 'class="best"' not in first      # nobody compared the first run with every other
    assert list(found)[-len(RUNS) - 2:] == ["copy", *RUNS, "pgkpr (2 seeds)mean ± sd over seeds"]


def test_other_tables_have_each_metric_once(page):
    results = part(page, "pgkpr-results")
    titles = re.findall(r"<caption><span><strong>([^<]+)\.</strong>", results)
    assert titles == ["As PGKPR reports them", "As HCL reports them", "Cumulative sentence BLEU",
                      "BERTScore and others", "Variety and keywords"]
    glossary = results[results.index('<dl class="glossary">'):]
    assert "No description" not in glossary and "Keywords kept: source&#39;s" in glossary
    assert glossary.count("<dt>") == len(set(re.findall("<dt>(.*?)</dt>", glossary)))
    assert row_of(page, "lbow", "tokens")["tokens"] == ("", "9.5")
    assert "What a contrast over keywords" not in results


def test_differences_are_of_the_runs_of_the_track(page):
    results = part(page, "pgkpr-results")
    assert "Paired differences from pgkpr (2 seeds)" in results
    forest = results[results.index('class="sortable forest"'):]
    names = [row[0] for row in rows(forest, "<tbody>")]
    assert names == ["w-o-con", "lbow", "floor copy"]


def test_runs_stand_below_their_published_rows_in_the_paper_s_unit(page):
    published = part(page, "pgkpr-published")
    tables = published.split("<summary>")[2:]
    assert [table[:table.index("<")] for table in tables] == [
        "Table 2a: Paraphrasing, Quora", "Table 2b: Paraphrasing, MSCOCO", "Table 3a: Ablations, Quora",
        "Table 3b: Ablations, MSCOCO", "Table 5: Human evaluation of PGKPR, Quora and MSCOCO, 0 to 2"]
    names = [row[0] for row in rows(tables[0], "<tbody>")]
    for ours, theirs in (("pgkpr (2 seeds)", "PGKPR3"), ("pgkpr-ref", "PGKPR-ref"), ("psi-s", "PGKPR-PSI+S"),
                         ("lbow", "LBOW-gumbel")):  # 3: the number of the row's note
        place = names.index(f"measured {ours}")
        assert names[place - 1] == theirs
    assert "measured w-o-con" not in names and "measured pgkpr" not in names
    found = {row[0]: row[1:] for row in rows(tables[0], "<tbody>")}
    assert found["measured pgkpr-ref"][:4] == ["61.00", "31.00", "21.00", "16.00"]
    assert found["measured pgkpr (2 seeds)"][:2] == ["54.32± 1.23", "28.50± 3.54"]
    assert found["PGKPR-ref"][0] == "58.891" and "suspicious coincidence" in tables[0]
    assert "the validation file is the training file" in tables[0]
    ablations = rows(tables[2], "<tbody>")
    assert [row[0] for row in ablations][:4] == ["PGKPR2", "measured pgkpr (2 seeds)", "w/o L_con", "measured w-o-con"]
    assert "measured" not in tables[1] and "measured" not in tables[3] and "58.1<sup>" in tables[2]
    assert "times 100, as in the paper" in published and "word vectors" not in published


def test_training_has_no_alarms_and_its_own_curves(page):
    training = part(page, "pgkpr-training")
    assert "alarms" not in training and "architecture" in training
    assert "The loss and its parts" in training and "Optimiser and the rest" in training
    assert "generation: pgkpr/13 validation from 5.500 to 5.000" in training
    assert ["w-o-con", "quora", "13", "contrast.weight = 0.0", "2", "2", "5.750"] in rows(training)
    settings = training[training.index("Settings of lbow"):]
    assert "latent bow: gumbel" in settings and "residual" not in settings


def test_a_missing_evaluation_names_its_stage(project, capsys):
    RunPaths("lbow", 13).metrics.write_text("{}")
    assert main([]) == 1 and "keycontrast stage evaluate_pgkpr@lbow" in capsys.readouterr().err
    RunPaths("lbow", 13).metrics.unlink()
    assert main([]) == 1 and "artifacts/runs/lbow/13/metrics.json: no such artifact" in capsys.readouterr().err
    write_rewriting()
    ModelPaths("psi", 13).history.write_text("step\n1\n")
    assert main([]) == 1 and "keycontrast stage train_pgkpr@psi" in capsys.readouterr().err


# -- the case study ---------------------------------------------------------------------------------------------

def test_two_parts_are_those_of_the_paper_s_example():
    words = ["what", "are", "good", "workouts", "to", "lose", "belly", "fat", "?"]
    tags = ["WDT", "VBP", "JJ", "NNS", "TO", "VB", "NN", "NN", "."]
    chosen = [word in ("good", "workouts", "lose", "belly", "fat") for word in words]

    def texts(mask):
        return [" ".join(token.text for token in tokens) for tokens in two_parts(words, tags, mask)]

    assert texts(chosen) == ["[WDT] [VBP] good workouts [TO] lose belly fat [.]",
                             "what are [JJ] [NNS] to [VB] [NN] [NN] ?"]
    tagged = " ".join(f"[{tag}]" for tag in tags)
    assert texts([True] * 9) == [" ".join(words), tagged] and texts([False] * 9) == [tagged, " ".join(words)]
    for tokens in two_parts(words, tags, chosen):
        assert [token.keyword for token in tokens] == chosen
        assert [token.is_tag for token in tokens] == [token.text.startswith("[") for token in tokens]


def study_of(folder, *names):
    with contextlib.chdir(folder):
        material = gather(load_params())
    runs = [run for run in material.results.runs if run.track == "pgkpr" and (not names or run.name in names)]
    return case_study(runs, material.pairs, material.results.seed), runs


def test_cases_show_what_the_first_run_reads_and_what_all_write(both):
    study, _ = study_of(both)
    assert (study.run, study.where_from, len(study.cases)) == ("pgkpr/13", "attribution, from the source alone", CASES)
    assert [case.example_id for case in study.cases] == seeded_examples(range(ITEMS), CASES, 13)
    for case in study.cases:
        words, tags = (texts[case.example_id % 3].split()[:READ] for texts in (QUESTIONS, TAGS))
        assert "".join(piece.text for piece in case.source) == " ".join(words)
        marked = [piece.text for piece in case.source if piece.marked]
        # Scores of the fixture are 0 or 1, so that the coins decide nothing.
        assert marked == [word for word, tag in zip(words, tags, strict=True) if tag not in (".", "TO", "DT", "WP")]
        for place, (one, other) in enumerate(zip(*case.parts, strict=True)):
            assert {one.text, other.text} == {words[place], f"[{tags[place]}]"} and one.is_tag != other.is_tag
        assert [output.run for output in case.outputs] == RUNS
        by_run = {output.run: output for output in case.outputs}
        assert by_run["pgkpr/13"].keywords == " ".join(marked) and by_run["lbow"].keywords is None
        assert by_run["psi-s"].keywords == " ".join(
            word for word, tag in zip(words, tags, strict=True) if tag.startswith("VB"))
        assert len(case.references) == 2
    long = next(case for case in study.cases if case.example_id % 3 == 2)
    assert long.cut == "at all today ?" and len(long.parts[0]) == READ == 17


def test_the_shown_keywords_are_those_that_the_run_was_given(both):
    study, runs = study_of(both, "pgkpr-ref", "lbow")
    given = {row.example_id: row.keyword for row in runs[0].predictions.itertuples()}
    for case in study.cases:
        assert " ".join(piece.text for piece in case.source if piece.marked) == given[case.example_id]
    # Half of the words by their coins: the test would be empty if none or all were chosen.
    chosen = [token.keyword for case in study.cases for token in case.parts[0]]
    assert 0.2 < sum(chosen) / len(chosen) < 0.8


def test_a_word_that_occurs_twice_is_marked_where_it_is_a_keyword(both):
    frame = paraphrase_items().head(1).assign(source_words=[["a", "b", "a"]], source_tags=[["X", "Y", "Z"]],
                                              score_xx=[[0.0, 0.0, 1.0]])
    _, runs = study_of(both, "pgkpr/13")
    pairs = {"pgkpr/13": PairsMaterial(frame, READ)}
    for mark_all, marked in ((False, [False, False, True]), (True, [True, False, True])):
        settings = {"architecture": "pgkpr", "keywords": {"mark_all": mark_all}}
        case, = case_study([replace(runs[0], settings=settings)], pairs, 13).cases
        assert [token.keyword for token in case.parts[0]] == marked
        assert [piece.marked for piece in case.source if piece.text != " "] == marked


def test_models_that_do_not_read_two_parts_show_none(both):
    plain, _ = study_of(both, "lbow")
    assert plain.run == "" and not any(piece.marked for case in plain.cases for piece in case.source)
    assert all(case.parts == [] for case in plain.cases)
    _, runs = study_of(both, "psi-s")
    ianet = case_study([replace(runs[0], settings={"architecture": "ianet"})],
                       {"psi-s": PairsMaterial(paraphrase_items().head(1), READ)}, 13)
    assert (ianet.run, ianet.where_from, ianet.has_inputs) == ("psi-s", "the S-Tagger", False)
    assert any(piece.marked for piece in ianet.cases[0].source)
    assert case_study(runs, {}, 13) is None


def test_the_case_study_on_the_page(page):
    cases = part(page, "pgkpr-cases")
    found = rows(cases)
    assert ["TSs, part 1", "[WP] are good workouts [TO] lose belly fat [.] <sep>"] in found
    assert ["TSs, part 2", "what [VBP] [JJ] [NNS] to [VB] [NN] [NN] ?"] in found
    assert ["psi-s", "how do i lose belly fat ?keywords: are lose"] in found
    assert ["lbow", f"{ATTACK} who wrote"] in found and any(IMAGE in cell for row in found for cell in row)
    assert "are beyond what models read" in cases and "at all today ?" in cases
    assert cases.count("<tbody") == CASES
    # A keyword is marked in the source and in part 1; the outputs keep others.
    items = sum(number % 3 == 0 for number in seeded_examples(range(ITEMS), CASES, 13))
    assert cases.count("<mark>workouts</mark>") == 2 * items > 0


def test_there_is_no_case_study_without_pairs_or_on_request(project):
    content = yaml.safe_load(Path("params.yaml").read_text())
    Path("params.yaml").write_text(yaml.safe_dump({**content, "report": {"examples": 0}}))
    assert main([]) == 0
    assert "pgkpr-cases" not in REPORT_PAGE.read_text(encoding="utf-8")
    Path("params.yaml").write_text(yaml.safe_dump(content))
    for path in MODELS.glob("*/*/paraphrase_items.parquet"):
        path.unlink()
    assert main([]) == 0
    text = REPORT_PAGE.read_text(encoding="utf-8")
    assert "pgkpr-cases" not in text and "pgkpr-generations" in text


def test_seeded_examples_are_drawn_from_all_and_stay_the_same():
    assert seeded_examples(range(1000), 5, 1) == seeded_examples(reversed(range(1000)), 5, 1)
    assert seeded_examples(range(1000), 5, 1) != seeded_examples(range(1000), 5, 2)
    assert seeded_examples([3, 1, 2], 9, 1) == [1, 2, 3] and seeded_examples([], 9, 1) == []


# -- parts of speech, generations, what ran ---------------------------------------------------------------------

def test_parts_of_speech_are_counted_in_five_families(page):
    section = part(page, "pgkpr-parts")
    assert "Keyword tokens by part of speech, 1,234 test sources." in section
    found = {row[0]: row[1:] for row in rows(section)}
    assert found["NN* (nouns)"] == ["240.0\u00a0% · 1", "1.655.0\u00a0% · 0.9", "266.7\u00a0% · 1"]
    assert found["VB* (verbs)"][0] == "120.0\u00a0% · 0" and found["all others"][0] == "120.0\u00a0% · 3"
    assert found["of all tokens"] == ["71.4\u00a0%", "42.9\u00a0%", "42.9\u00a0%"]
    assert "PGKPR: nouns 2, adjectives 0, pronouns 0, adverbs 1, verbs 1; PSI: nouns 2, adjectives 1" in section
    assert parts_of_speech(DatasetMaterial("d", {})) is None


def test_parts_of_speech_of_data_sets_without_runs_of_the_track_are_left_out(both):
    with contextlib.chdir(both):
        material = gather(load_params())
    made = {dataset.name: parts_of_speech(dataset) for dataset in material.datasets}
    assert all(isinstance(one, PartsOfSpeech) for one in made.values()) and set(made) == {"quora", "tiny"}
    assert part((both / REPORT_PAGE).read_text(encoding="utf-8"), "pgkpr-parts").count("<h4>") == 1


def test_generations_mark_every_keyword_of_the_source(page, both):
    generations = part(page, "pgkpr-generations")
    assert "keywords <strong>are good workouts lose belly fat</strong>" in generations
    assert "what <mark>are</mark> <mark>good</mark> <mark>workouts</mark> to <mark>lose</mark>" in generations
    assert "of one order each with smoothing 7, as HCL reports it" in generations
    data = json.loads(re.search('id="generations-pgkpr-0">(.*?)</script>', page, re.DOTALL)[1])
    assert data["many"] is True and data["runs"] == RUNS and len(data["items"]) == ITEMS
    assert data["items"][0][1] == "are good workouts lose belly fat" and data["items"][0][5:8] == [None] * 3
    assert data["items"][0][9][0] == [0.25, 0.25, 0.25]
    with contextlib.chdir(both):
        predictions = read_frame(RunPaths("pgkpr", 13).predictions, SCHEMAS["predictions"])
    runs = [Run("pgkpr", "pgkpr", "pgkpr", "quora", 1, TRACKS["pgkpr"].row({}, {}), {"counts": {}},
                predictions=predictions)]
    assert "many" not in generations_data(runs, None, 10**6)


def test_pairs_as_words_stand_among_what_ran(page):
    ran = part(page, "ran")
    assert "Pairs as words (PGKPR)" in ran and "vocabulary: words" in ran
    assert "Runs of PGKPR" in ran and "keywords = s_tagger" in ran


def test_pages_of_large_recipes_stay_small(project):
    """Six runs on two thousand long items: the data are cut, and the page stays below 5 MB."""
    count, words = 2000, " ".join(f"word{number}" for number in range(40))
    pairs = pd.concat([paraphrase_items().head(1).assign(example_id=number)
                       for number in seeded_examples(range(count), CASES, 13)])
    for name in REWRITERS:
        for seed in REWRITERS[name][0].get("seeds", [13]):
            write_rewriter(name, seed, pairs)
    for run in RUNS:
        paths = RunPaths(row_name(run), int(run.partition("/")[2] or 13))
        write_table(paths.predictions, SCHEMAS["predictions"], pd.DataFrame({
            "example_id": range(count), "sample": 0, "source": words, "keyword": words, "keyword_known": True,
            "prediction": words, "references": [[words] * 4] * count}), provenance(f"generate_pgkpr@{run}"))
    assert main([]) == 0
    page = REPORT_PAGE.read_text(encoding="utf-8")
    assert 1_000_000 < len(page.encode()) < 5_000_000
    items = json.loads(re.search('id="generations-pgkpr-0">(.*?)</script>', page, re.DOTALL)[1])["items"]
    assert 100 < len(items) < count

