"""The embedded English pipeline: its treebank reader, its recipe in miniature, and the shipped folder."""

import gzip
import hashlib
import random
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc
from spacy.util import load_config

from stages.run.errors import InputError
from stages.text.pipelines import EMBEDDED_FOLDER, hash_folder
from stages.treebank import training
from stages.treebank.conllu import (
    Sentence,
    Shape,
    build_doc,
    documents,
    hide_words,
    parse_sentences,
    read_sentences,
    sample_docs,
    treebank_file,
    without_annotation,
)
from stages.treebank.lemma_tables import apply_rules, learn_lemma_tables
from stages.treebank.scoring import score_docs
from stages.treebank.tagged import POS_OF_TAG, read_tagged
from stages.treebank.tokenizer_rules import add_treebank_rules

LIMIT = 12 * 10**6

# "form lemma UPOS tag", a blank after each word unless its tag ends in "_"; "+" joins the next word into a
# fused token. Written for these tests.
SENTENCES = """
The the DET DT|kettle kettle NOUN NN|sings sing VERB VBZ_|. . PUNCT .
I I PRON PRP|+do do AUX VBP|n't not PART RB|like like VERB VB|cold cold ADJ JJ|tea tea NOUN NN_|. . PUNCT .
Two two NUM CD|birds bird NOUN NNS|built build VERB VBD|nests nest NOUN NNS_|. . PUNCT .
Rain rain NOUN NN|falls fall VERB VBZ|slowly slowly ADV RB_|. . PUNCT .
Maria Maria PROPN NNP|closed close VERB VBD|old old ADJ JJ|windows window NOUN NNS_|. . PUNCT .
We we PRON PRP|are be AUX VBP|walking walk VERB VBG|home home ADV RB_|. . PUNCT .
Who who PRON WP|painted paint VERB VBD|the the DET DT|green green ADJ JJ|door door NOUN NN_|? ? PUNCT .
She she PRON PRP|+ca can AUX MD|n't not PART RB|find find VERB VB|her her PRON PRP$|keys key NOUN NNS_|. . PUNCT .
Some some DET DT|trains train NOUN NNS|arrive arrive VERB VBP|late late ADV RB_|. . PUNCT .
Peter Peter PROPN NNP|and and CCONJ CC|Maria Maria PROPN NNP|danced dance VERB VBD_|. . PUNCT .
Snow snow NOUN NN|covered cover VERB VBD|the the DET DT|quiet quiet ADJ JJ|village village NOUN NN_|. . PUNCT .
Please please INTJ UH|water water VERB VB|these these DET DT|plants plant NOUN NNS_|! ! PUNCT .
"""
FORM, LEMMA, POS, TAG = range(4)
TAGGED = """# Written for these tests.

Do/VB/AUX +n't/RB/PART stir/VB pea/NN soup/NN +!/.
Who/WP drank/VBD my/PRP$ ginger/NN tea/NN +?/.
"""


def conllu() -> str:
    """Return the sentences above as CoNLL-U: documents of four, paragraphs of two."""
    blocks = []
    for index, line in enumerate(SENTENCES.strip().splitlines()):
        rows = [f"# newdoc id = d{index // 4}"] if index % 4 == 0 else []
        rows += [f"# newpar id = p{index // 2}"] if index % 2 == 0 else []
        words = [cell.split() for cell in line.split("|")]
        for number, (word, following) in enumerate(pairwise([*words, None]), start=1):
            misc = "SpaceAfter=No" if word[TAG].endswith("_") else "_"
            if word[FORM].startswith("+"):
                fused = word[FORM][1:] + following[FORM]
                rows.append("\t".join([f"{number}-{number + 1}", fused, *"_" * 8]))
            cells = [
                number,
                word[FORM].removeprefix("+"),
                word[LEMMA],
                word[POS],
                word[TAG].rstrip("_"),
                "_",
                0,
                "_",
                "_",
            ]
            rows.append("\t".join(map(str, [*cells, misc])))
        blocks.append("\n".join(rows) + "\n")
    return "\n".join(blocks) + "\n"


@pytest.fixture(scope="module")
def sentences() -> list[Sentence]:
    return list(parse_sentences(conllu().splitlines(), "here"))


@pytest.fixture(scope="module")
def tagged(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tagged") / "own.tagged"
    path.write_text(TAGGED, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def treebank(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("treebank")
    for part in ("train", "dev", "test"):
        (folder / f"en_ewt-ud-{part}.conllu").write_text(conllu(), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tiny_recipe():
    narrow = {"width": 16, "rows": [200, 50, 100, 50, 10]}
    changes = {f"components.tok2vec.model.embed.{name}": value for name, value in narrow.items()}
    changes |= {"components.tok2vec.model.encode.width": 16, "components.tok2vec.model.encode.depth": 1}
    return load_config(training.RECIPE, overrides=changes)


def row(number: str, form: str, misc: str = "_") -> str:
    return "\t".join([number, form, form, "X", "FW", "_", "_", "_", "_", misc])


def text_of(*rows: str) -> str:
    (sentence,) = parse_sentences([*rows, ""], "here")
    return build_doc(spacy.blank("en").vocab, [sentence]).text


def test_spaces_follow_the_text():
    assert text_of(row("1", "Wait", "SpaceAfter=No"), row("2", "!"), row("3", "Now")) == "Wait! Now "
    assert text_of(row("1", "a", "Cxn=x|SpaceAfter=No"), row("2", "b")) == "ab "


def test_fused_tokens_stay_apart_and_unspaced():
    rows = [row("1", "You"), row("2-3", "can't", "SpaceAfter=No"), row("2", "ca"), row("3", "n't"), row("4", ".")]
    assert text_of(*rows) == "You can't. "
    assert (
        text_of(row("1-3", "y'all's"), row("1", "y'"), row("2", "all"), row("3", "'s"), row("4", "x")) == "y'all's x "
    )


def test_comments_empty_nodes_and_missing_last_blank_line():
    lines = ["# newdoc id = a", "# text = x", row("1", "x"), row("1.1", "gone"), "", "", row("1", "y")]
    found = list(parse_sentences(lines, "here"))
    assert [[word.form for word in sentence.words] for sentence in found] == [["x"], ["y"]]
    assert [sentence.opens_document for sentence in found] == [True, False]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("2\tshort", "2 columns where CoNLL-U has 10"),
        (row("x", "word"), "'x' is not a word number"),
        (row("3", "word"), "word 3 follows word 1"),
        (row("2", ""), "the word form is empty"),
        (row("3-2", "word"), "ends before it begins"),
    ],
)
def test_bad_line_is_named(tmp_path, bad, message):
    file = tmp_path / "broken.conllu"
    file.write_text("\n".join(["# a comment", row("1", "fine"), bad, ""]), encoding="utf-8")
    with pytest.raises(InputError, match=rf"broken\.conllu:3: .*{message}"):
        read_sentences(file)


def test_packed_plain_missing_and_damaged_files(tmp_path, sentences):
    with pytest.raises(InputError, match="en_ewt-ud-dev.conllu"):
        treebank_file(tmp_path, "dev")
    packed = tmp_path / "en_ewt-ud-dev.conllu.gz"
    packed.write_bytes(gzip.compress(conllu().encode()))
    assert read_sentences(treebank_file(tmp_path, "dev")) == sentences
    packed.write_bytes(b"not gzip at all")
    with pytest.raises(InputError, match="damaged"):
        read_sentences(packed)


def test_documents_and_paragraphs(sentences):
    groups = documents(sentences)
    assert [len(group) for group in groups] == [4, 4, 4]
    vocab = spacy.blank("en").vocab
    doc = build_doc(vocab, groups[0])
    assert doc.text.count("\n\n") == 1
    assert doc.text.startswith("The kettle sings. I don't like cold tea.\n\nTwo birds")
    assert [sentence.text.strip() for sentence in doc.sents][1] == "I don't like cold tea."
    assert {token.tag_ for token in doc if token.is_space} == {"_SP"}
    assert "\n" not in build_doc(vocab, groups[0], Shape(paragraphs=False)).text


def test_lower_case_and_spaced_shapes(sentences):
    doc = build_doc(spacy.blank("en").vocab, sentences[1:2], Shape(lower=True, spaced=True))
    assert doc.text == "i do n't like cold tea . "


def test_lines_wrap_between_words_only(sentences):
    doc = build_doc(spacy.blank("en").vocab, sentences, Shape(wrap=30))
    lines = doc.text.split("\n")
    assert max(map(len, lines)) < 50
    assert " ".join(doc.text.split()) == " ".join(build_doc(doc.vocab, sentences).text.split())


def test_samples_hold_each_sentence_once_in_seeded_order(sentences):
    vocab = spacy.blank("en").vocab
    recipe = load_config(training.RECIPE)["recipe"]

    def texts(seed: int) -> list[str]:
        return [doc.text for doc in sample_docs(vocab, sentences, random.Random(seed), recipe)]

    words = sorted(word.form.lower() for sentence in sentences for word in sentence.words)
    docs = sample_docs(vocab, sentences, random.Random(1), recipe)
    assert sorted(token.lower_ for doc in docs for token in doc if not token.is_space) == words
    assert texts(1) == texts(1)
    assert texts(1) != texts(2)


def test_rare_words_are_hidden_more_often_than_others():
    vocab = spacy.blank("en").vocab
    counts, rng = {"the": 10_000, "kettle": 1}, random.Random(1)
    docs = [hide_words(Doc(vocab, words=["The", "Kettle", "\n"]), counts, rng, 0.5) for _ in range(300)]
    hidden = [sum(doc[place].norm_ != doc[place].lower_ for doc in docs) for place in range(3)]
    assert hidden[0] <= 2 and 70 <= hidden[1] <= 130 and hidden[2] == 0  # of 300: 0.015, 100
    norms = [doc[1].norm_ for doc in docs if doc[1].norm_ != "kettle"]
    assert len(set(norms)) == len(norms)
    assert {(doc[1].text, doc[1].suffix_, doc[1].shape_) for doc in docs} == {("Kettle", "tle", "Xxxxx")}


def test_lemmas_of_seen_and_unseen_words(sentences):
    tables = learn_lemma_tables(sentences)
    rules = tables.get_table("lemma_rules")["verb"]
    assert apply_rules(rules, "cooked") == "cook"  # from "walked", which is nowhere in the sentences
    nlp = spacy.blank("en")
    nlp.add_pipe("lemmatizer", config={"mode": "rule"}).initialize(lookups=tables)
    words, pos = ["Maria", "Built", "nests", "!!!"], ["PROPN", "VERB", "NOUN", "PUNCT"]
    doc = nlp(Doc(nlp.vocab, words=words, pos=pos))
    assert [token.lemma_ for token in doc] == ["Maria", "build", "nest", "!!!"]


def test_tokens_as_in_the_treebank():
    nlp = spacy.blank("en")
    add_treebank_rules(nlp.tokenizer)
    text = "What?!! My e-mail id: call 713-853-3989 on Wed. at 7:30PM and/or re-read a well-known list, I can't =====."
    assert [token.text for token in nlp(text)] == [
        *["What", "?!!", "My", "e-mail", "id", ":", "call", "713-853-3989", "on", "Wed.", "at", "7:30", "PM"],
        *["and", "/", "or", "re-read", "a", "well", "-", "known", "list", ",", "I", "ca", "n't", "=====", "."],
    ]


def test_split_words_have_the_norms_of_bare_words():
    nlp = spacy.blank("en")
    add_treebank_rules(nlp.tokenizer)
    doc = nlp("They didn't, can't and won't.")
    assert [token.norm_ for token in doc] == [token.norm_ for token in without_annotation(doc)]


def test_scores_count_exact_spans(sentences):
    vocab = spacy.blank("en").vocab
    gold = build_doc(vocab, sentences[:1])
    assert set(score_docs([gold], [gold]).values()) == {100.0}
    other = Doc(vocab, words=["The", "kettlesings", "."], spaces=[True, False, True], sent_starts=[True, False, False])
    shifted = Doc(vocab, words=["The", "kettle", "sings."], sent_starts=[True, False, False])
    assert score_docs([gold], [shifted])["token"] == pytest.approx(100 * 2 * 2 / 7, abs=0.01)
    assert score_docs([gold], [other])["tag"] == 0


def test_tagged_sentences_have_tags_spaces_and_no_lemmas(tagged):
    first, second = read_tagged(tagged)
    assert [(word.form, word.tag, word.pos) for word in first.words][:3] == [
        ("Do", "VB", "AUX"), ("n't", "RB", "PART"), ("stir", "VB", "VERB")]
    vocab = spacy.blank("en").vocab
    texts = [build_doc(vocab, [one]).text for one in (first, second)]
    assert texts == ["Don't stir pea soup!", "Who drank my ginger tea?"]
    assert not build_doc(vocab, [first]).has_annotation("LEMMA")
    assert [len(group) for group in documents([first, second])] == [1, 1]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("soup", "'soup': a word is FORM/TAG or FORM/TAG/UPOS"),
        ("and/or/CC/CCONJ", "'and/or/CC/CCONJ': a word is FORM/TAG"),
        ("soup/", "'soup/': .*none of them empty"),
        ("+/.", r"'\+/\.': .*none of them empty"),
        ("soup/NNN", "'soup/NNN': no tag 'NNN' is known; did you mean 'NN"),
        ("soup/NN/VERB", "'soup/NN/VERB': a word with the tag NN is NOUN or PRON, not 'VERB'"),
    ],
)
def test_bad_tagged_word_is_named(tmp_path, bad, message):
    file = tmp_path / "own.tagged"
    file.write_text(f"# a comment\n\nPea/NN {bad} +./.\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"own\.tagged:3: {message}"):
        read_tagged(file)


def test_tagged_files_without_sentences_are_named(tmp_path):
    file = tmp_path / "own.tagged"
    with pytest.raises(InputError, match=r"own\.tagged: no such file"):
        read_tagged(file)
    for content, message in [(b"# nothing\n", "no sentence in it"), (b"caf\xe9/NN", "not UTF-8"),
                             (b"+soup/NN", "tagged:1: '.soup/NN' opens the line")]:
        file.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_tagged(file)


def test_shipped_questions_are_distinct_and_in_tokens_of_the_pipeline():
    questions = read_tagged(training.TAGGED)
    nlp = spacy.load(EMBEDDED_FOLDER)
    docs = [build_doc(nlp.vocab, [sentence]) for sentence in questions]
    assert len({doc.text for doc in docs}) == len(docs)
    # Else they would teach what the pipeline never sees.
    assert [doc.text for doc in docs if [token.text for token in nlp.make_doc(doc.text)] != [w.text for w in doc]] == []
    # A label that the treebank lacks would be one more class.
    assert {word.tag for one in questions for word in one.words} <= set(nlp.get_pipe("tagger").labels)
    assert set(POS_OF_TAG) <= set(nlp.get_pipe("tagger").labels)


def test_two_steps_train_the_same_bytes_twice(tiny_recipe, sentences):
    first, second = (training.train_pipeline(tiny_recipe, sentences, [], max_steps=2) for _ in range(2))
    assert first.to_bytes() == second.to_bytes()
    other = tiny_recipe.copy()
    other["system"]["seed"] = 1
    assert training.train_pipeline(other, sentences, [], max_steps=2).to_bytes() != first.to_bytes()
    assert "kettle" not in first.vocab.strings


def test_tagged_sentences_train_the_networks_and_not_the_lemmatizer(tiny_recipe, sentences, tagged):
    with_them, without = (training.train_pipeline(tiny_recipe, sentences, more, max_steps=3)
                          for more in (read_tagged(tagged), []))
    assert with_them.get_pipe("tagger").to_bytes() != without.get_pipe("tagger").to_bytes()
    assert with_them.get_pipe("lemmatizer").to_bytes() == without.get_pipe("lemmatizer").to_bytes()
    assert "ginger" not in with_them.vocab.strings


def test_command_trains_writes_and_scores(tmp_path, treebank, tagged, tiny_recipe, capsys):
    recipe, out = tmp_path / "tiny.cfg", tmp_path / "sub" / "pipeline"
    tiny_recipe.to_disk(recipe)
    command = ["--treebank", str(treebank), "--tagged", str(tagged), "--recipe", str(recipe), "--max-steps", "1",
               "--out", str(out)]
    assert training.main(command) == 0
    assert training.main(command) == 0  # over the older one
    assert [path.name for path in out.parent.iterdir()] == ["pipeline"]
    assert '"test"' in capsys.readouterr().out
    assert training.main(["--treebank", str(treebank), "--evaluate", str(out)]) == 0
    assert '"gold_documents"' in capsys.readouterr().out
    assert str(treebank) not in (out / "config.cfg").read_text(encoding="utf-8")


def test_command_says_what_is_wrong(tmp_path, treebank, capsys):
    precious = tmp_path / "precious"
    precious.mkdir()
    assert training.main(["--treebank", str(tmp_path), "--evaluate", str(EMBEDDED_FOLDER)]) == 1
    assert training.main(["--treebank", str(treebank), "--evaluate", str(precious)]) == 1
    assert training.main(["--treebank", str(treebank), "--out", str(precious)]) == 1
    (tmp_path / "empty.cfg").write_text("[recipe]\nwrap_width = 72\n", encoding="utf-8")
    command = ["--treebank", str(treebank), "--recipe", str(tmp_path / "empty.cfg"), "--out", str(tmp_path / "new")]
    assert training.main(command) == 1
    command = ["--treebank", str(treebank), "--tagged", str(tmp_path / "none"), "--out", str(tmp_path / "new")]
    assert training.main(command) == 1
    messages = capsys.readouterr().err
    assert f"{tmp_path / 'none'}: no such file" in messages
    assert "neither en_ewt-ud-test.conllu nor" in messages
    assert "no spaCy pipeline there" in messages
    assert "exists and is not a spaCy pipeline" in messages
    assert "lacks hidden_share, largest_group, lower_share, run_on_share" in messages


def test_shipped_pipeline_is_small_and_reads_english():
    size = sum(path.stat().st_size for path in EMBEDDED_FOLDER.rglob("*") if path.is_file())
    assert size <= LIMIT
    nlp = spacy.load(EMBEDDED_FOLDER)
    doc = nlp("The children didn't see three small dogs. Where were they running?")
    assert [token.tag_ for token in doc][:9] == ["DT", "NNS", "VBD", "RB", "VB", "CD", "JJ", "NNS", "."]
    assert [token.pos_ for token in doc][:5] == ["DET", "NOUN", "AUX", "PART", "VERB"]
    assert " ".join(token.lemma_ for token in doc) == "the child do not see three small dog . where be they run ?"
    assert [sentence.start for sentence in doc.sents] == [0, 9]
    assert [token.pos_ for token in nlp("one \n two") if token.is_space] == ["SPACE"]


def test_card_has_the_scores_on_questions_that_were_never_trained_on():
    nlp = spacy.load(EMBEDDED_FOLDER)
    held_out = read_tagged(training.FOLDER / "questions-held-out.tagged")
    gold = [build_doc(nlp.vocab, [one]) for one in held_out]
    trained = {build_doc(nlp.vocab, [one]).text for one in read_tagged(training.TAGGED)}
    assert not trained & {doc.text for doc in gold}
    scores = score_docs(gold, nlp.pipe(map(without_annotation, gold)))
    card = (EMBEDDED_FOLDER.parent / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| this pipeline \| ([\d.]+) \| ([\d.]+) \|$", card, flags=re.MULTILINE)
    # One word is 0.26; another processor may round one differently.
    assert [scores["tag"], scores["pos"]] == pytest.approx([float(cell) for cell in row], abs=0.6)


def test_card_names_the_shipped_bytes():
    card = (EMBEDDED_FOLDER.parent / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/.-]+)` \| ([\d,]+) \| `([0-9a-f]{64})` \|$", card, flags=re.MULTILINE)
    assert "tok2vec/model" in dict(row[:2] for row in rows)
    for name, size, digest in rows:
        content = (EMBEDDED_FOLDER / name).read_bytes()
        assert (f"{len(content):,}", hashlib.sha256(content).hexdigest()) == (size, digest), name
    assert hash_folder(EMBEDDED_FOLDER) in card


def test_shipped_pipeline_needs_no_code_of_ours(tmp_path):
    shutil.copytree(EMBEDDED_FOLDER, tmp_path / "elsewhere")
    nlp = spacy.load(tmp_path / "elsewhere")
    gold = without_annotation(nlp.make_doc("Stock parts only."))
    assert [token.tag_ for token in nlp(gold)] == ["NN", "NNS", "RB", "."]
    assert "stages" not in (EMBEDDED_FOLDER / "config.cfg").read_text(encoding="utf-8")
