"""Writes model/testdata/architectures.json: logits of the tiny models of
internal/testkit/modelkit by an implementation that is not ours, LitGPT's model.py
(Lightning-AI/litgpt, Apache-2.0) in PyTorch, float32, on the CPU.

    go test ./model -run TestArchitecturesMatchGoldens -args -tiny DIR
    python3 tools/architectures/golden.py LITGPT DIR > model/testdata/architectures.json

LITGPT is a checkout, DIR holds a model folder per architecture. Ours are only the
mapping of config.json and of tensor names, and the things that LitGPT does not have:
a dense layer among mixtures, layers that are not rotated, the frequencies of
longrope, and those of yarn, whose blend it runs the other way than the paper
(arXiv 2309.00071, 3.2) and transformers' modeling_rope_utils.py.
"""

import json
import math
import struct
import sys
import types
from pathlib import Path

import torch
import torch.nn.functional as F

PROMPT = [(i * i * 7 + 3 * i + 5) % 259 for i in range(40)]
POSITIONS = [9, 39]


def attention(q, k, v, attn_mask=None, dropout_p=0.0, scale=1.0, is_causal=False):
    """torch's scaled_dot_product_attention, for versions before 2.0."""
    scores = q @ k.transpose(-1, -2) * scale
    if is_causal:
        n = scores.shape[-1]
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
    if attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1) @ v


def load_litgpt(checkout):
    """Returns LitGPT's model and config modules without what they import beside torch."""
    if not hasattr(F, "scaled_dot_product_attention"):
        F.scaled_dot_product_attention = attention
    for name, members in {
        "yaml": {}, "typing_extensions": {"Self": object},
        "litgpt": {}, "litgpt.scripts": {}, "litgpt.scripts.convert_hf_checkpoint": {"qkv_reassemble": None},
    }.items():
        module = types.ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module
    loaded = []
    for name in ("config", "model"):
        module = types.ModuleType("litgpt." + name)
        sys.modules["litgpt." + name] = module
        setattr(sys.modules["litgpt"], name, module)
        exec(compile((checkout / "litgpt" / f"{name}.py").read_text(), name, "exec"), module.__dict__)
        loaded.append(module)
    return loaded


def read_safetensors(path):
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    tensors = {}
    for name, t in json.loads(raw[8 : 8 + size]).items():
        assert t["dtype"] == "F32"
        begin, end = t["data_offsets"]
        data = torch.frombuffer(bytearray(raw[8 + size + begin : 8 + size + end]), dtype=torch.float32)
        tensors[name] = data.reshape(t["shape"]).clone()
    return tensors


def config_of(lit, c):
    """Maps config.json to LitGPT's Config."""
    arch, layers = c["architectures"][0].removesuffix("ForCausalLM"), range(c["num_hidden_layers"])
    o = dict(
        name=arch, block_size=c["max_position_embeddings"], n_layer=len(layers), n_embd=c["hidden_size"], vocab_size=c["vocab_size"],
        padded_vocab_size=c["vocab_size"], norm_class_name="RMSNorm", norm_eps=c["rms_norm_eps"], parallel_residual=False,
        n_head=c["num_attention_heads"], head_size=c["head_dim"], n_query_groups=c["num_key_value_heads"],
        rope_base=c["rope_theta"], rotary_percentage=c.get("partial_rotary_factor", 1.0), intermediate_size=c["intermediate_size"],
        bias=False, mlp_class_name="LLaMAMLP",
    )
    scaling = c.get("rope_scaling") or {}
    if arch == "Llama":
        o["rope_adjustments"] = dict(factor=scaling["factor"], low_freq_factor=scaling["low_freq_factor"],
            high_freq_factor=scaling["high_freq_factor"], original_max_seq_len=scaling["original_max_position_embeddings"])
    if arch in ("Mistral", "Phi3"):
        o["sliding_window_size"] = c["sliding_window"]
    if arch == "Qwen2":
        o["attn_bias"] = True
        o["sliding_window_size"] = c["sliding_window"]
        o["sliding_window_indices"] = [int(i >= c["max_window_layers"]) for i in layers]
    if arch in ("Qwen3", "Qwen3Moe", "Gemma3"):
        o["norm_qk"] = True
    if arch in ("Qwen3Moe", "Mixtral"):
        o.update(mlp_class_name="LLaMAMoE", n_expert=c.get("num_experts") or c["num_local_experts"], n_expert_per_token=c["num_experts_per_tok"],
            moe_intermediate_size=c.get("moe_intermediate_size", c["intermediate_size"]))
    if arch in ("Gemma2", "Gemma3"):
        o.update(mlp_class_name="GemmaMLP", gelu_approximate="tanh", post_attention_norm=True, post_mlp_norm=True,
            scale_embeddings=True, attention_scores_scalar=c["query_pre_attn_scalar"], sliding_window_size=c["sliding_window"])
    if arch == "Gemma2":
        o.update(attention_logit_softcapping=c["attn_logit_softcapping"], final_logit_softcapping=c["final_logit_softcapping"],
            sliding_window_indices=[int(i % 2 == 0) for i in layers])
    if arch == "Gemma3":
        local = [int((i + 1) % c["sliding_window_pattern"] != 0) for i in layers]
        o.update(sliding_window_indices=local, rope_indices=local, rope_local_base_freq=c["rope_local_base_freq"],
            rope_adjustments=dict(factor=scaling["factor"]))
    return arch, lit(**o)


def rename(arch, t, layers):
    """Maps tensor names to LitGPT's."""
    out = {"transformer.wte.weight": t["model.embed_tokens.weight"], "transformer.ln_f.weight": t["model.norm.weight"],
        "lm_head.weight": t.get("lm_head.weight", t["model.embed_tokens.weight"])}
    for i in range(layers):
        p, q = f"model.layers.{i}.", f"transformer.h.{i}."
        out[q + "norm_1.weight"] = t[p + "input_layernorm.weight"]
        attn = p + "self_attn."
        for kind in ("weight", "bias"):
            parts = [t[f"{attn}{x}_proj.{kind}"] for x in "qkv" if f"{attn}{x}_proj.{kind}" in t]
            if parts:
                out[f"{q}attn.qkv.{kind}"] = torch.cat(parts)
        if attn + "qkv_proj.weight" in t:
            out[q + "attn.qkv.weight"] = t[attn + "qkv_proj.weight"]
        for x in "qk":
            if f"{attn}{x}_norm.weight" in t:
                out[f"{q}attn.norm_{x}.weight"] = t[f"{attn}{x}_norm.weight"]
        out[q + "attn.proj.weight"] = t[attn + "o_proj.weight"]
        if arch.startswith("Gemma"):
            out[q + "post_attention_norm.weight"] = t[p + "post_attention_layernorm.weight"]
            out[q + "norm_2.weight"] = t[p + "pre_feedforward_layernorm.weight"]
            out[q + "post_mlp_norm.weight"] = t[p + "post_feedforward_layernorm.weight"]
        else:
            out[q + "norm_2.weight"] = t[p + "post_attention_layernorm.weight"]
        mlp(arch, t, out, p, q)
    return out


def mlp(arch, t, out, p, q):
    if arch == "Phi3":
        out[q + "mlp.fc_1.weight"], out[q + "mlp.fc_2.weight"] = t[p + "mlp.gate_up_proj.weight"].chunk(2)
        out[q + "mlp.proj.weight"] = t[p + "mlp.down_proj.weight"]
        return
    moe = next((m for m in ("mlp", "block_sparse_moe") if p + m + ".gate.weight" in t), None)
    groups = [(p + "mlp.", q + "mlp.")]
    if moe:
        router = t[f"{p}{moe}.gate.weight"]
        out[q + "mlp.gate.weight"] = router
        groups = [(f"{p}{moe}.experts.{e}.", f"{q}mlp.experts.{e}.") for e in range(len(router))]
    names = ("w1", "w3", "w2") if moe == "block_sparse_moe" else ("gate_proj", "up_proj", "down_proj")
    for a, b in groups:
        for x, y in zip(names, ("fc_1", "fc_2", "proj")):
            out[f"{b}{y}.weight"] = t[f"{a}{x}.weight"]


def rotations(model, c, inverse, scale):
    angles = torch.outer(torch.arange(c["max_position_embeddings"]).float(), inverse)
    angles = torch.cat((angles, angles), -1)
    model.cos, model.sin = angles.cos() * scale, angles.sin() * scale


def longrope(model, c):
    """Replaces the rotations by those of the long factors."""
    dim, original = model.config.rope_n_elem, c["original_max_position_embeddings"]
    inverse = 1 / (torch.tensor(c["rope_scaling"]["long_factor"]) * c["rope_theta"] ** (torch.arange(0, dim, 2).float() / dim))
    stretch = c["max_position_embeddings"] / original
    rotations(model, c, inverse, math.sqrt(1 + math.log(stretch) / math.log(original)))


def yarn(model, c):
    """Replaces the rotations: pairs that turn fast stay, slow ones are divided."""
    s, dim, base = c["rope_scaling"], model.config.rope_n_elem, c["rope_theta"]
    turns_at = lambda turns: dim * math.log(s["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(math.floor(turns_at(32)), 0), min(math.ceil(turns_at(1)), dim - 1)
    divided = ((torch.arange(dim // 2).float() - low) / (high - low)).clamp(0, 1)
    inverse = 1 / base ** (torch.arange(0, dim, 2).float() / dim)
    rotations(model, c, inverse / s["factor"] * divided + inverse * (1 - divided), 0.1 * math.log(s["factor"]) + 1)


def unrotated(block):
    forward = block.forward
    block.forward = lambda x, cos, sin, *rest: forward(x, torch.ones_like(cos), torch.zeros_like(sin), *rest)


def build(lit, folder):
    c = json.loads((folder / "config.json").read_text())
    arch, config = config_of(lit[0].Config, c)
    model = lit[1].GPT(config)
    for i in c.get("mlp_only_layers", []):
        model.transformer.h[i].mlp = lit[1].LLaMAMLP(config)
    tensors = read_safetensors(folder / "model.safetensors")
    model.load_state_dict(rename(arch, tensors, config.n_layer), strict=True)
    if arch == "Phi3":
        longrope(model, c)
    if arch == "Qwen2":
        yarn(model, c)
    for i, turned in enumerate(c.get("no_rope_layers", [])):
        if not turned:
            unrotated(model.transformer.h[i])
    return model.eval()


@torch.no_grad()
def main():
    lit = load_litgpt(Path(sys.argv[1]))
    golden = {}
    for folder in sorted(Path(sys.argv[2]).iterdir()):
        model, ids = build(lit, folder), list(PROMPT)
        logits = model(torch.tensor([ids]))[0]
        rows = {str(p): [round(v, 5) for v in logits[p].tolist()] for p in POSITIONS}
        for _ in range(12):
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
        golden[folder.name] = {"greedy": ids[len(PROMPT) :], "logits": rows}
    json.dump({"prompt": PROMPT, "architectures": golden}, sys.stdout, separators=(",", ":"))
    print()


main()
