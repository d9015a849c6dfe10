"""How fast it is, measured against something else on the same machine in the same run: ratios.

``training``    the fast recipe against nanoGPT's: curves, final losses, the share of its time fast needs.
``hooks``       a GPT nobody watches against the same network written without hook points.
``generation``  against ``generate`` of transformers with its cache, same weights, same greedy tokens.
``cache``       a full ``run_with_cache`` against TransformerLens' bridge, same weights: time and peak memory.
``patching``    grids of activation patches against TransformerLens' ``patching``, same weights and numbers; the time of
                attribution patching in forward passes.

Two sides are timed in turns (A B A B ...), so that a busy machine slows both; the ratio is the median of the
rounds. Before anything is timed the two sides are shown to compute the same numbers.
"""
