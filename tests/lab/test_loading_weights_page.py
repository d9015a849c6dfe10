"""The programs on docs/loading-weights.md under "Your own GPT" run, and print the parity that the page promises."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

import pytest
import torch

from lab import Run
from model import GPT, GPTConfig

# A GPT with nanoGPT's names and its two ways to be called, written out once more.
NANOGPT = """
from dataclasses import dataclass
import torch, torch.nn as nn, torch.nn.functional as F

@dataclass
class GPTConfig:
    block_size: int = 1024; vocab_size: int = 50304; n_layer: int = 12; n_head: int = 12; n_embd: int = 768
    dropout: float = 0.0; bias: bool = True

class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.n_head
        self.c_attn = nn.Linear(c.n_embd, 3 * c.n_embd, bias=c.bias)
        self.c_proj = nn.Linear(c.n_embd, c.n_embd, bias=c.bias)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.c_attn(x).split(d, dim=2))
        scores = (q @ k.transpose(-2, -1)) * k.shape[-1] ** -0.5
        scores = scores.masked_fill(torch.ones(t, t).tril() == 0, float("-inf"))
        return self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))

class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c_fc = nn.Linear(c.n_embd, 4 * c.n_embd, bias=c.bias)
        self.c_proj = nn.Linear(4 * c.n_embd, c.n_embd, bias=c.bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))

class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.ln_2 = (nn.LayerNorm(c.n_embd, bias=c.bias) for _ in range(2))
        self.attn, self.mlp = Attention(c), MLP(c)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))

class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(c.vocab_size, c.n_embd), wpe=nn.Embedding(c.block_size, c.n_embd),
            h=nn.ModuleList([Block(c) for _ in range(c.n_layer)]), ln_f=nn.LayerNorm(c.n_embd, bias=c.bias)))
        self.lm_head = nn.Linear(c.n_embd, c.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        x = self.transformer.wte(idx) + self.transformer.wpe(torch.arange(idx.shape[1]))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        return (self.lm_head(x), 0) if targets is not None else (self.lm_head(x[:, [-1]]), None)
"""


@pytest.mark.parametrize("bias", [True, False])
def test_from_nanogpt_to_a_run_with_the_parity_check(root: Path, tmp_path: Path, bias: bool) -> None:
    page = (root / "docs/loading-weights.md").read_text(encoding="utf-8").split("## Your own GPT")[1]
    to_a_run, parity, transformers = re.findall(
        r"^```python\n(.*?)^```$", page.split("## TransformerLens")[0], re.M | re.S
    )
    text = "To be, or not to be, that is the question:\n" * 3
    args = dict(n_layer=2, n_head=2, n_embd=16, block_size=16, bias=bias, vocab_size=len(set(text)), dropout=0.1)
    for name, content in {"data/shakespeare_char/input.txt": text, "path/to/nanoGPT/model.py": NANOGPT}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "out").mkdir()
    theirs: dict = {"__name__": "nanogpt"}
    exec(compile(NANOGPT.replace("@dataclass", ""), "nanogpt", "exec"), theirs)
    network = theirs["GPT"](type("Sizes", (), args))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(
                0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
            )
    state = {f"_orig_mod.{name}": tensor for name, tensor in network.state_dict().items()}
    torch.save({"model": state, "model_args": args, "iter_num": 2000}, tmp_path / "out/ckpt.pt")

    said = io.StringIO()
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(said):
        names: dict = {"__name__": "page"}
        for program in (to_a_run, parity, transformers):
            exec(compile(program, "docs/loading-weights.md", "exec"), names)
    fp32, fp64, against_transformers = (float(x) for x in re.findall(r"tensor\(([\d.e+-]+)", said.getvalue()))
    assert fp32 < 1e-4 and fp64 < 1e-10 and against_transformers < 1e-4
    run = Run(tmp_path / "runs/mine")
    assert run.checkpoints() == [2000] and run.tokenizer().vocab_size == len(set(text))
    assert isinstance(names["model"], GPT) and isinstance(names["model"].config, GPTConfig)
    sys.modules.pop("nanogpt", None)
