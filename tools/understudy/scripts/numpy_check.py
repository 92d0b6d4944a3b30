# numpy_check.py OUTDIR [GOLDEN.json] : independent per-token numpy forward (no torch), reads the safetensors files: compares its greedy continuations with golden.json
import json, struct, sys, numpy as np
out = sys.argv[1]
def load(p):
    b = open(p, "rb").read(); n = struct.unpack("<Q", b[:8])[0]; h = json.loads(b[8:8+n]); r = {}
    for k, v in h.items():
        if k == "__metadata__": continue
        a, e = v["data_offsets"]; r[k] = (np.frombuffer(b[8+n+a:8+n+e], np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(v["shape"])
    return r
g = json.load(open(sys.argv[2] if len(sys.argv) > 2 else out + "/golden.json")); bad = 0; tot = 0; worst = 0
for name, key in (("understudy", "greedy_ids"), ("understudy-draft", "draft_greedy_ids")):
    c = json.load(open(f"{out}/{name}/config.json")); w = load(f"{out}/{name}/model.safetensors"); H, KV, hd = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    nrm = lambda x, g: x / np.sqrt((x * x).mean() + c["rms_norm_eps"]) * g
    def step(t, pos, cache):
        x = w["model.embed_tokens.weight"][t]; ang = pos / c["rope_theta"] ** (np.arange(0, hd, 2) / hd); co, si = np.cos(ang), np.sin(ang)
        rp = lambda v: np.concatenate([v[:, :hd//2] * co - v[:, hd//2:] * si, v[:, hd//2:] * co + v[:, :hd//2] * si], 1)
        for l in range(c["num_hidden_layers"]):
            p = f"model.layers.{l}."; h = nrm(x, w[p + "input_layernorm.weight"]); q = rp((w[p + "self_attn.q_proj.weight"] @ h).reshape(H, hd)); k = rp((w[p + "self_attn.k_proj.weight"] @ h).reshape(KV, hd)); v = (w[p + "self_attn.v_proj.weight"] @ h).reshape(KV, hd)
            cache[l][0].append(k); cache[l][1].append(v); K, Vv = np.stack(cache[l][0]), np.stack(cache[l][1]); o = []
            for i in range(H):
                s = K[:, i // (H // KV)] @ q[i] / np.sqrt(hd); e = np.exp(s - s.max()); o.append((e / e.sum()) @ Vv[:, i // (H // KV)])
            x = x + w[p + "self_attn.o_proj.weight"] @ np.concatenate(o); h = nrm(x, w[p + "post_attention_layernorm.weight"]); a = w[p + "mlp.gate_proj.weight"] @ h
            x = x + w[p + "mlp.down_proj.weight"] @ (a / (1 + np.exp(-a)) * (w[p + "mlp.up_proj.weight"] @ h))
        return w["model.embed_tokens.weight"] @ nrm(x, w["model.norm.weight"])
    for x in g["cases"]:
        cache = [([], []) for _ in range(c["num_hidden_layers"])]; lg = None
        for i, t in enumerate(x["prompt_ids"]): lg = step(t, i, cache)
        o = []; pos = len(x["prompt_ids"])
        for k in range(48):
            t = int(lg.argmax())
            if name == "understudy" and k < len(x.get("top5", [])): worst = max(worst, max(abs(float(lg[i]) - v) for i, v in zip(x["top5"][k]["ids"], x["top5"][k]["logits"])))
            o.append(t)
            if t in g["eos_token_ids"] or k == 47: break
            lg = step(t, pos, cache); pos += 1
        tot += 1
        if o != x[key]: bad += 1; print("differs", name, repr(x["prompt"][-40:]), x.get("min_top2_gap"))
print(tot, "continuations,", bad, "differ; largest logit difference in top5", worst)
