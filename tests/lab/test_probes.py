"""Probes: a planted feature is found where it was planted and nowhere before; labels of every source; bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from lab.analysis import (
    LabelledTokens,
    Steer,
    apply,
    conllu_labels,
    corpus_labels,
    fit_probes,
    function_labels,
    planted_induction,
    read_labels,
)
from lab.corpora import open_corpus
from lab.tokenizers import train_tokenizer
from tests.model.variants import tiny

N_DOCUMENTS = 80


def random_documents(count: int = N_DOCUMENTS, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(12, size=24).tolist() for _ in range(count)]


def kind_of_previous(ids: list[int], position: int) -> str | None:
    """low, middle or high, of the token one place back: what L0H0 of the planted model brings."""
    return None if position == 0 else ("low", "middle", "high")[ids[position - 1] // 4]


@pytest.fixture(scope="module")
def planted():
    return planted_induction()


@pytest.fixture(scope="module")
def probes(planted):
    return fit_probes(planted, function_labels(random_documents(), kind_of_previous))


def test_a_planted_feature_is_found_where_it_was_planted(probes):
    assert probes.rows == ("embed", "L0", "L1")
    before, after, _ = probes.accuracy
    assert after > 0.99
    assert probes.accuracy[2] > 0.99
    assert before < 0.45
    assert probes.best == 1
    assert (probes.control < 0.45).all()
    assert probes.selectivity[1] > 0.5
    assert abs(probes.selectivity[0]) < 0.15
    assert probes.majority == pytest.approx(1 / 3, abs=0.1)


def test_the_interval_holds_the_accuracy_and_the_confusion_adds_up(probes):
    low, high = probes.interval.T
    assert (low <= probes.accuracy + 1e-12).all()
    assert (probes.accuracy <= high + 1e-12).all()
    assert high[0] - low[0] > 0.02
    assert (probes.confusion.sum((1, 2)) == probes.examples[2]).all()
    assert np.allclose(np.trace(probes.confusion, axis1=1, axis2=2) / probes.examples[2], probes.accuracy)


def test_weights_are_in_the_activations_own_units(planted, probes):
    documents = random_documents(30, seed=9)
    with torch.no_grad():
        _, cache = planted.run_with_cache(torch.tensor(documents))
    stream = cache["blocks.0.hook_resid_post"].numpy()
    said = (stream @ probes.direction_of[1].T + probes.bias[1]).argmax(-1)
    wanted = np.array(documents)[:, :-1] // 4
    names = {name: index for index, name in enumerate(probes.classes)}
    codes = np.array([names["low"], names["middle"], names["high"]])[wanted]
    assert (said[:, 1:] == codes).mean() > 0.99


def test_a_direction_steers_what_is_used(planted, probes):
    """The feature is read by L1H0's keys: pushing place 2 to look as if it followed a "high" token moves attention."""
    direction = probes.direction("L0", "high", versus="low")
    assert np.linalg.norm(direction) == pytest.approx(1)
    prompt = torch.tensor([[3, 1, 5, 7, 6, 10]])  # 10 is new: nothing to find; 3 precedes place 1
    point = "blocks.1.attn.hook_pattern"
    with torch.no_grad():
        before = planted.run_with_cache(prompt)[1][point][0, 0, -1, 1]
        with apply(planted, Steer(direction, 0, strength=4, position=1)):
            after = planted.run_with_cache(prompt)[1][point][0, 0, -1, 1]
    assert after > before + 0.3


def test_documents_stay_whole():
    """A probe that could memorise documents must not meet one twice: labels here are the document's alone."""
    documents = random_documents(40)
    number = {tuple(ids): str(at % 2) for at, ids in enumerate(documents)}
    labels = function_labels(documents, lambda ids, position: number[tuple(ids)])
    probes = fit_probes(tiny(n_ctx=24), labels)
    assert probes.documents == (24, 8, 8)
    assert sum(probes.examples) == 40 * 24
    assert (np.abs(probes.accuracy - 0.5) < 0.2).all()


def test_the_token_control_is_learnt_by_memory_alone(planted):
    labels = function_labels(random_documents(), lambda ids, position: ("even", "odd")[ids[position] % 2])
    probes = fit_probes(planted, labels, control="token", layers=[0])
    assert probes.control_kind == "token"
    assert probes.accuracy[0] > 0.99
    assert probes.control[0] > 0.99  # a one-hot stream can memorise twelve tokens: nothing selective about it


def test_a_long_document_is_read_in_windows():
    ids = np.random.default_rng(0).integers(23, size=(5, 150)).tolist()
    labels = function_labels(ids, lambda ids, position: str(ids[position] % 2))
    probes = fit_probes(tiny(), labels, bootstrap=50)
    assert sum(probes.examples) == 750
    assert probes.documents == (3, 1, 1)
    assert np.isnan(probes.interval).all()  # one test document: nothing to draw again
    json.loads(probes.to_json(), parse_constant=pytest.fail)


def test_the_same_seed_gives_the_same(planted):
    labels = function_labels(random_documents(), kind_of_previous)
    first, second = (fit_probes(planted, labels, bootstrap=20).to_json() for _ in range(2))
    assert first == second
    assert fit_probes(planted, labels, bootstrap=20, seed=1).to_json() != first


def test_stories_have_gold_labels():
    corpus = open_corpus("stories", size=30_000)
    tokenizer = corpus.make_tokenizer("auto")
    labels = corpus_labels(corpus, tokenizer, "pos")
    assert labels.name == "stories:pos"
    assert len(labels.documents) > 3
    assert "NOUN" in labels.classes
    words = [
        (tokenizer.decode([i]).strip(), labels.classes[c])
        for i, c in zip(labels.documents[0], labels.codes[0], strict=True)
    ]
    assert ("the", "DET") in words or ("The", "DET") in words
    by_name = read_labels("stories:pos", tokenizer, size=30_000)
    assert all(np.array_equal(a, b) for a, b in zip(by_name.documents, labels.documents, strict=True))


def test_documents_with_unknown_words_are_left_out_and_counted():
    corpus = open_corpus("stories", size=30_000)
    documents = corpus.validation.split("\n\n")
    known = train_tokenizer("word", corpus.train + "".join(f"{text}\n\n" for text in documents[1:]))
    try:
        missing = not known.encode(documents[0])
    except ValueError:
        missing = True
    labels = corpus_labels(corpus, known, "pos")
    assert labels.skipped == int(missing)
    assert len(labels.documents) + labels.skipped == corpus.labels("validation").document.max() + 1
    few = train_tokenizer("word", "\n\n" + documents[1] + "\n\n")
    alone = corpus_labels(corpus, few, "pos")
    everything = corpus_labels(corpus, corpus.make_tokenizer("auto"), "pos")
    assert alone.skipped == len(everything.documents) - len(alone.documents)
    assert [alone.classes[code] for code in alone.codes[0]] == [
        everything.classes[code] for code in everything.codes[1]
    ]
    with pytest.raises(ValueError, match="no document is without words unknown to it"):
        corpus_labels(corpus, train_tokenizer("word", "nothing of it"), "pos")


def test_python_has_token_classes():
    labels = read_labels("python:token", train_tokenizer("byte", ""), size=200_000)
    text = "".join(chr(index) for index in labels.documents[-1])
    at = text.index("def ")
    assert [labels.classes[code] for code in labels.codes[-1][at : at + 3]] == ["keyword"] * 3


CONLLU = """\
# newdoc id = a
# text = I don't know.
1\tI\tI\tPRON\tPRP\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tknow\tknow\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

# text = Go on!
1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
2\ton\ton\tADV\tRB\t_\t1\tadvmod\t_\tSpaceAfter=No
2.1\tempty\tempty\tX\tX\t_\t_\t_\t_\t_
3\t!\t!\tPUNCT\t.\t_\t1\tpunct\t_\t_

# newdoc id = b
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\tSpaceAfter=No
2\t.\t.\tPUNCT\t.\t_\t1\tpunct\t_\t_
"""


def test_a_treebank_is_read(tmp_path):
    path = tmp_path / "mini.conllu"
    path.write_text(CONLLU, encoding="utf-8")
    tokenizer = train_tokenizer("char", "I don't know. Go on! Yes.")
    labels = conllu_labels(path, tokenizer)
    assert [tokenizer.decode(ids.tolist()) for ids in labels.documents] == ["I don't know. Go on!", "Yes."]
    said = [[labels.classes[code] if code >= 0 else "" for code in codes] for codes in labels.codes]
    first = ["PRON", "", *["AUX"] * 5, "", *["VERB"] * 4, "PUNCT", "", "VERB", "VERB", "", "ADV", "ADV", "PUNCT"]
    assert said == [first, ["INTJ"] * 3 + ["PUNCT"]]
    assert conllu_labels(path, tokenizer, field="deprel").classes[0] == "advmod"
    by_name = read_labels(f"conllu:{path}:xpos", tokenizer)
    assert "PRP" in by_name.classes


def test_real_treebanks_are_read(shared):
    tokenizer = train_tokenizer("byte", "")
    for name, classes in (("en_ewt-ud-dev", 17), ("zh_gsdsimp-ud-dev", 15)):
        labels = read_labels(f"conllu:{shared / 'data' / name}.conllu", tokenizer)
        assert abs(len(labels.classes) - classes) <= 2
        assert len(labels) > 10_000
        assert all(len(ids) == len(codes) for ids, codes in zip(labels.documents, labels.codes, strict=True))


def test_bad_input_is_explained(planted, tmp_path):
    documents = random_documents(6)
    with pytest.raises(ValueError, match="have 1 class, 'one': a probe needs at least two"):
        fit_probes(planted, function_labels(documents, lambda ids, position: "one"))
    with pytest.raises(ValueError, match=r"\d+ training tokens for 72 features"):
        fit_probes(planted, function_labels(documents[:3], kind_of_previous))
    with pytest.raises(ValueError, match="come in 2 documents"):
        fit_probes(planted, function_labels(documents[:2], kind_of_previous))
    labels = function_labels(documents, kind_of_previous)
    with pytest.raises(ValueError, match="Layer 2 does not exist"):
        fit_probes(planted, labels, layers=[2])
    with pytest.raises(ValueError, match="site is 'resid'"):
        fit_probes(planted, labels, site="resid")
    with pytest.raises(ValueError, match="control is 'random'"):
        fit_probes(planted, labels, control="random")
    tokenizer = train_tokenizer("char", "abc")
    for spec in ("pos", "stories", "brown:pos"):
        with pytest.raises(ValueError, match="give stories:pos, python:token, or conllu:FILE"):
            read_labels(spec, tokenizer)
    with pytest.raises(ValueError, match=r"no label layer 'tense'; there are pos"):
        read_labels("stories:tense", train_tokenizer("byte", ""), size=5_000)
    with pytest.raises(ValueError, match="There is no treebank file"):
        read_labels(f"conllu:{tmp_path / 'none.conllu'}", tokenizer)
    path = tmp_path / "broken.conllu"
    path.write_text("1\tYes\tyes\n\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"broken.conllu, line 1: 3 columns"):
        conllu_labels(path, tokenizer)
    path.write_text(CONLLU, encoding="utf-8")
    with pytest.raises(ValueError, match=r"tokenizer cannot read broken.conllu"):
        conllu_labels(path, tokenizer)
    with pytest.raises(ValueError, match="Text needs a tokenizer"):
        function_labels(["abc"], kind_of_previous)


def test_directions_and_tables(probes):
    assert not np.allclose(probes.direction(1, "low"), probes.direction(1, "high"))
    with pytest.raises(ValueError, match="class is 'tall'"):
        probes.direction(1, "tall")
    with pytest.raises(ValueError, match="row is 'L9'"):
        probes.direction("L9", "low")
    table = probes.to_frame()
    assert table["selectivity"].tolist() == probes.selectivity.tolist()
    assert "direction_of" not in json.loads(probes.to_json())
    assert isinstance(LabelledTokens("x", ("a",), (np.array([1]),), (np.array([0]),)).__len__(), int)
