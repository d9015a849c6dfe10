"""Damaged files of every kind, through the commands that read them: runs, studies, other people's weights, texts.

A command may refuse with a sentence or carry on; it may not end in a traceback, hang, be killed, or tell other numbers
than before where a digest could have shown the damage.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.runs import Run, read_json, write_json
from tests.faults.tiny_runs import corpus, train_words
from tests.faults.trials import PATIENCE, Ending, Process, Tally, again, cases, chance, said_by

PROMPT = ("--prompt", "the cat", "--tokens", "3")
ROWS = ("1 the the DET DT _ 2 det _ _", "2 cat cat NOUN NN _ 3 nsubj _ _", "3 sat sit VERB VBD _ 0 root _ _")
CONLLU = "".join("# text\n" + "".join(row.replace(" ", "\t") + "\n" for row in ROWS) + "\n" for _ in range(60))


@dataclass(frozen=True)
class Subject:
    """Something that commands read. files: those that may be damaged. told: a command whose output must not change.

    make: puts it into a folder. commands: the words, given that folder. told: what it comes to, where a digest guards
    its files; asked before the damage, and after a command that went well.
    """

    name: str
    make: Callable[[Path], None]
    commands: Callable[[Path], list[list[str]]]
    files: Callable[[Path], list[Path]]
    told: Callable[[Path], Any] | None = None


def run(n: int, seed: int, folder: Path, case: int | None = None) -> Tally:
    """n damaged files, of each subject in turn."""
    tally = Tally("damage")
    templates, place = folder / "whole", folder / "case"
    templates.mkdir()
    subjects = [each for each in SUBJECTS if _made(each, place, templates / each.name, tally)]
    for number in cases(n, case):
        subject, dice = subjects[number % len(subjects)], chance(seed, "damage", number)
        shutil.copytree(templates / subject.name, place)
        path = dice.choice(subject.files(place))
        before = subject.told(place) if subject.told else None
        names = [name for name in DAMAGES if name not in JSON_ONLY or path.suffix == ".json"]
        damage = dice.choice(names)
        DAMAGES[damage](path, dice)
        commands = subject.commands(place)
        faults = []
        for words in dice.sample(commands, min(2, len(commands))):
            ending = said_by(words, folder / f"case{number}.log")
            fault = ending.fault or _endless(ending)
            if fault is None and ending.code == 0 and subject.told and subject.told(place) != before:
                fault = "other numbers than before, and nothing said"
            if fault:
                faults.append(f"residlab {' '.join(words).replace(str(place), '.')}: {fault}")
        what = f"case {number}, {subject.name}, {path.relative_to(place)} {damage}"
        tally.add(what, "; ".join(faults) or None, again("damage", seed, number))
        _writable(path)
        shutil.rmtree(place)
    if os.geteuid() == 0:
        tally.notes.append("files without permission not tried: root reads everything")
    return tally


def _endless(ending: Ending) -> str | None:
    """A refusal is a sentence, not a flood."""
    return f"{len(ending.said)} characters of words" if ending.code == 2 and len(ending.said) > 5000 else None


def _made(subject: Subject, place: Path, template: Path, tally: Tally) -> bool:
    """Make a subject once, see that its commands go well, and put it aside. Runs name their text by its whole path, so
    every trial has it in the same place."""
    log = template.with_suffix(".log")

    def make() -> int:
        place.mkdir()
        subject.make(place)
        return 0

    ending = Process(make, log).wait(2 * PATIENCE)
    if "ModuleNotFoundError" in ending.said:
        tally.notes.append(f"{subject.name} not tried: {ending.said.strip().splitlines()[-1]}")
        shutil.rmtree(place)
        return False
    if ending.code != 0:
        raise RuntimeError(f"{subject.name} could not be made: {ending.said}")
    shutil.copytree(place, template)
    for words in subject.commands(place):
        ready = said_by(words, log)
        if ready.code != 0:
            raise RuntimeError(f"{words} failed before anything was damaged: {ready.said}")
    shutil.rmtree(place)
    return True


# --- what is damaged --------------------------------------------------------------------------------------------------


def _train(place: Path, *more: str) -> Path:
    from lab.cli import main

    words = train_words(place / "runs" / "a", corpus(place), 12, *more)
    if main(words) != 0:
        raise RuntimeError("training failed")
    return place / "runs" / "a"


def _files(*names: str) -> Callable[[Path], list[Path]]:
    return lambda place: sorted(path for name in names for path in place.glob(name) if path.is_file())


def _make_run(place: Path) -> None:
    _train(place)


def _make_stopped(place: Path) -> None:
    run = Run(_train(place))
    config = read_json(run.path / "config.json")
    config["training"]["steps"] = 16
    write_json(run.path / "config.json", config)
    run.write_status("stopped", 12, 16)


def _run_commands(place: Path) -> list[list[str]]:
    run = str(place / "runs" / "a")
    return [
        ["runs", "--root", str(place / "runs")], ["runs", "--root", str(place / "runs"), "--json"],
        ["sample", run, *PROMPT], ["sample", f"{run}@best", *PROMPT], ["inspect", run, "--prompt", "the cat"],
        ["heads", run], ["dynamics", run],
    ]  # fmt: skip


def _make_study(place: Path) -> None:
    from lab.studies import StudyFolder, make_plan
    from lab.studies.plan import aa_seed, tuning_seed
    from lab.studies.report import write_report
    from lab.studies.run import stamped
    from tests.lab.test_studies_report import STUDY, outcome

    folder = StudyFolder(place / "tiny-small")
    folder.register(stamped(make_plan(STUDY, "small")))
    for lr in (1e-3, 1e-2):
        outcome(folder, "pre", "tune", lr, tuning_seed(0), 2.5)
        outcome(folder, "post", "tune", lr, tuning_seed(0), 2.6)
    for seed in range(2):
        outcome(folder, "pre", "confirm", 1e-2, seed, 2.5)
        outcome(folder, "post", "confirm", 1e-2, seed, 2.7)
        outcome(folder, "pre", "aa", 1e-2, aa_seed(seed), 2.5)
    folder.event("tuned", lrs=[1e-3, 1e-2], chosen={})
    folder.event("complete")
    write_report(folder)


def _study_commands(place: Path) -> list[list[str]]:
    return [["study", "report", str(place / "tiny-small")], ["study", "list", "--root", str(place)]]


def _study_table(place: Path) -> Any:
    """The table of a study, without the one file that is damaged itself."""
    table = place / "tiny-small" / "results.csv"
    return table.read_bytes() if table.is_file() else None


def _make_open_study(place: Path) -> None:
    from tests.lab.studying import tiny_study

    tiny_study(place / "study", 1, steps=4, corpus=corpus(place))


def _tokenizer_file(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(["the cat sat"], trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet))
    made.save(str(folder / "tokenizer.json"))


def _make_transformers(**saving: Any) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        import torch
        import transformers

        values = dict(vocab_size=280, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**values))
        folder = place / "model"
        model.save_pretrained(folder, **{k: v for k, v in saving.items() if k != "pickled"})
        if saving.get("pickled"):
            (folder / "model.safetensors").unlink()
            torch.save(model.state_dict(), folder / "pytorch_model.bin")
        _tokenizer_file(folder)

    return make


def _make_gguf(place: Path) -> None:
    from tests.model.ggufs import their_model, write_model

    write_model(place / "model.gguf", "llama", their_model("llama"))


def _foreign_commands(name: str, prompt: Sequence[str]) -> Callable[[Path], list[list[str]]]:
    return lambda place: [["sample", str(place / name), *prompt]]


def _make_text(place: Path) -> None:
    corpus(place)
    (place / "folder").mkdir()
    for name in ("a.txt", "b.md", "c.py"):
        (place / "folder" / name).write_text(corpus(place).read_text())


def _text_commands(place: Path) -> list[list[str]]:
    return [train_words(place / f"of-{name}", place / name, 2) for name in ("cat.txt", "folder")]


def _make_treebank(place: Path) -> None:
    _train(place)
    (place / "mini.conllu").write_text(CONLLU, encoding="utf-8")


def _treebank_commands(place: Path) -> list[list[str]]:
    return [["probe", str(place / "runs" / "a"), "--labels", f"conllu:{place / 'mini.conllu'}", "--examples", "50"]]


def _corpus_bytes(place: Path) -> Any:
    path = place / "cat.txt"
    return path.read_bytes() if path.is_file() else None


SUBJECTS = (
    Subject("run", _make_run, _run_commands, _files("runs/a/*.json*", "runs/a/checkpoints/*/*")),
    Subject(
        "stopped run",
        _make_stopped,
        lambda place: [["train", "--resume", str(place / "runs" / "a"), "--quiet"]],
        _files("runs/a/*.json*", "runs/a/checkpoints/step_000012/*", "runs/a/checkpoints/step_000010/*"),
    ),
    Subject(
        "corpus of a stopped run",
        _make_stopped,
        lambda place: [["train", "--resume", str(place / "runs" / "a"), "--quiet"]],
        _files("cat.txt"),
        _corpus_bytes,
    ),
    Subject(
        "study",
        _make_study,
        _study_commands,
        _files("tiny-small/*.json*", "tiny-small/jobs/*", "tiny-small/done/*"),
        _study_table,
    ),
    Subject(
        "study to be made",
        _make_open_study,
        lambda place: [["worker", "--root", str(place / "study"), "--once"]],
        _files("study/*.json", "study/jobs/*", "cat.txt"),
    ),
    Subject("safetensors", _make_transformers(), _foreign_commands("model", PROMPT), _files("model/*")),
    Subject("shards", _make_transformers(max_shard_size="20KB"), _foreign_commands("model", PROMPT), _files("model/*")),
    Subject("pickle", _make_transformers(pickled=True), _foreign_commands("model", PROMPT), _files("model/*")),
    Subject("gguf", _make_gguf, lambda place: [["heads", str(place / "model.gguf")]], _files("model.gguf")),
    Subject("text", _make_text, _text_commands, _files("cat.txt", "folder/*")),
    Subject("treebank", _make_treebank, _treebank_commands, _files("mini.conllu")),
)  # fmt: skip


# --- how --------------------------------------------------------------------------------------------------------------

Damage = Callable[[Path, random.Random], None]


def _bytes(change: Callable[[bytes, random.Random], bytes]) -> Damage:
    return lambda path, dice: path.write_bytes(change(path.read_bytes(), dice)) and None


def _cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.choice([1, 4, 8, 9, max(0, len(data) - 1), dice.randrange(len(data) + 1)])]


def _flip(data: bytes, dice: random.Random) -> bytes:
    found = bytearray(data or b"\0")
    for _ in range(dice.choice([1, 1, 8])):
        found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
    return bytes(found)


def _flip_at_the_start(data: bytes, dice: random.Random) -> bytes:
    found = bytearray(data or b"\0")
    found[dice.randrange(min(len(found), 64))] ^= 1 << dice.randrange(8)
    return bytes(found)


def _hole(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(data) + 1)
    return data[:start] + bytes(dice.randrange(1, 64)) + data[start:]


WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 1e308, 2**70, "x", "", [], {}, [[]], [None], {"a": {}}, "NaN", 10**9, ["x"] * 3,
)  # fmt: skip


def _places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value of a JSON text, at most some of each list."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:4]) if isinstance(value, list) else ()
    found = [way] if way else []
    for name, item in list(inner)[:400]:
        found += _places(item, (*way, name))
    return found


def _change(act: Callable[[Any, Any, random.Random], None]) -> Damage:
    def damage(path: Path, dice: random.Random) -> None:
        value = json.loads(path.read_text(encoding="utf-8"))
        ways = _places(value)
        top = [way for way in ways if len(way) <= 2]
        *way, last = dice.choice(top if dice.random() < 0.5 else ways)
        inner = value
        for step in way:
            inner = inner[step]
        act(inner, last, dice)
        path.write_text(json.dumps(value), encoding="utf-8")

    return damage


def _wrong_type(inner: Any, last: Any, dice: random.Random) -> None:
    inner[last] = dice.choice([wrong for wrong in WRONG if type(wrong) is not type(inner[last])])


def _wrong_value(inner: Any, last: Any, dice: random.Random) -> None:
    numbers = [value for value in WRONG if isinstance(value, int | float) and not isinstance(value, bool)]
    inner[last] = dice.choice(
        numbers if isinstance(inner[last], int | float) else ["x", "../../etc/passwd", "\x00", "ü" * 300]
    )


def _remove(inner: Any, last: Any, dice: random.Random) -> None:
    del inner[last]


def _fifo(path: Path, dice: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, dice: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _link_to_nothing(path: Path, dice: random.Random) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def _loop(path: Path, dice: random.Random) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _device(path: Path, dice: random.Random) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _zip(path: Path, dice: random.Random) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")


def _no_permission(path: Path, dice: random.Random) -> None:
    path.chmod(0)


def _writable(path: Path) -> None:
    if path.exists() and not path.is_symlink():
        path.chmod(0o700)


def _other(data: bytes) -> Damage:
    return lambda path, dice: path.write_bytes(data) and None


DAMAGES: dict[str, Damage] = {
    "cut": _bytes(_cut),
    "bits flipped": _bytes(_flip),
    "a bit of its start flipped": _bytes(_flip_at_the_start),
    "with a hole": _bytes(_hole),
    "twice": _bytes(lambda data, dice: data + data),
    "empty": _other(b""),
    "of another type": _change(_wrong_type),
    "of another value": _change(_wrong_value),
    "without a field": _change(_remove),
    "nested deeply": _other(b"[" * 200_000),
    "an object nested deeply": _other(b'{"a":' * 100_000),
    "an integer of 5,000 digits": _other(b'{"step": ' + b"9" * 5000 + b"}"),
    "a JSON list": _other(b"[1, 2]"),
    "a JSON object": _other(b"{}"),
    "UTF-16": _bytes(lambda data, dice: data.decode("latin-1").encode("utf-16")),
    "Latin-1": _other("Grüße, naïve café, São Paulo. ".encode("latin-1") * 40),
    "binary": _bytes(lambda data, dice: dice.randbytes(len(data))),
    "a PNG": _other(b"\x89PNG\r\n\x1a\n" + bytes(60)),
    "a pickle": _other(pickle.dumps({"a": [1, 2]})),
    "gzip": _bytes(lambda data, dice: gzip.compress(data)),
    "a zip": _zip,
    "a pipe": _fifo,
    "a folder": _folder,
    "a link to nothing": _link_to_nothing,
    "a link to itself": _loop,
    "a device without end": _device,
    **({} if os.geteuid() == 0 else {"without permission": _no_permission}),
}
JSON_ONLY = ("of another type", "of another value", "without a field")
