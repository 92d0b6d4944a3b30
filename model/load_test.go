package model_test

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
)

const (
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

// loadError loads a folder that must be refused, and checks that the refusal
// is a coded one.
func loadError(t *testing.T, dir string, o model.Options) error {
	t.Helper()
	f, err := model.OpenDir(dir)
	if err == nil {
		_, err = model.Load(f, o)
	}
	require.Error(t, err)
	var coded *infer.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, infer.CodeInvalid, coded.Code)
	require.NotEmpty(t, coded.Param)
	require.NotContains(t, coded.Message, "%!", "format mistake")
	return err
}

func TestBrokenFoldersAreRefused(t *testing.T) {
	write := func(name, content string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { modelkit.WriteFile(t, dir, name, []byte(content)) }
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, name))) }
	}
	truncate := func(name string, by int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(path, info.Size()-by))
		}
	}
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 123456\n"
	const second = "model-00002-of-00002.safetensors"
	cases := []struct {
		name   string
		shards int
		spoil  func(*testing.T, string)
		want   string
	}{
		{"no config", 1, remove("config.json"), "there is no config.json; a model folder in the Hugging Face layout"},
		{"config is a list", 1, write("config.json", "[]"), "config.json: is not a JSON object"},
		{"no weights", 1, remove(weightsFile), "there are no weights"},
		{"git-lfs pointer", 1, write(weightsFile, pointer), "git-lfs pointer"},
		{"git-lfs pointer as a shard", 2, write(second, pointer), second + ": this is a git-lfs pointer"},
		{"web page", 1, write(weightsFile, "<!doctype html>"), "HTML page"},
		{"empty file", 1, write(weightsFile, ""), "empty (0 bytes)"},
		{"truncated file", 1, truncate(weightsFile, 1), "truncated"},
		{"truncated shard", 2, truncate(second, 100), second + ": tensor"},
		{"missing shard", 2, remove(second), "there is no " + second},
		{"missing index", 2, remove(indexFile), "the index of the shards is missing"},
		{"index is no JSON", 2, write(indexFile, "weights"), indexFile + ": is not a JSON object"},
		{"index is a git-lfs pointer", 2, write(indexFile, pointer), indexFile + ": this is a git-lfs pointer"},
		{"config is a git-lfs pointer", 1, write("config.json", pointer), "config.json: this is a git-lfs pointer, not the file itself: run `git lfs pull`"},
		{"index without map", 2, write(indexFile, "{}"), "weight_map is missing"},
		{"index with numbers", 2, write(indexFile, `{"weight_map":{"a":1}}`), "weight_map is not a map"},
		{"index that leaves the folder", 2, write(indexFile, `{"weight_map":{"a":"../x.safetensors"}}`), `sends tensor "a" to "../x.safetensors"`},
		{"index of another model", 2, write(indexFile, `{"weight_map":{"wte":"`+second+`"}}`), `tensor "wte" is said to be in ` + second},
		{"broken generation config", 1, write("generation_config.json", `{"top_p":2}`), "generation_config.json: top_p is 2; it must be a number in (0, 1]"},
		{"end token outside the vocabulary", 1, write("generation_config.json", `{"eos_token_id":[1,67]}`), "eos_token_id holds 67; token ids are integers from 0 to 66"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			small := modelkit.Small(1)
			dir := small.Write(t, "F32", c.shards)
			c.spoil(t, dir)
			require.ErrorContains(t, loadError(t, dir, options(t)), c.want)
		})
	}
}

func TestFoldersThatAreNone(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, loadError(t, filepath.Join(dir, "nowhere"), options(t)), "does not exist")
	modelkit.WriteFile(t, dir, "model.bin", nil)
	require.ErrorContains(t, loadError(t, filepath.Join(dir, "model.bin"), options(t)), "is a file; give a *.gguf file or the folder")
	modelkit.WriteFile(t, dir, "config.json", modelkit.Small(1).ConfigJSON(t))
	modelkit.WriteFile(t, dir, "pytorch_model.bin", nil)
	require.ErrorContains(t, loadError(t, dir, options(t)), "pytorch_model.bin is a PyTorch checkpoint")
	require.NoError(t, os.Mkdir(filepath.Join(dir, weightsFile), 0o700))
	require.ErrorContains(t, loadError(t, dir, options(t)), "there are no weights")
}

func TestTensorsThatDoNotFitTheConfig(t *testing.T) {
	drop := func(name string) func(*modelkit.Llama) {
		return func(m *modelkit.Llama) { m.Tensor(name).Name = "model.layers.9.rotary_emb.inv_freq" }
	}
	cases := []struct {
		name   string
		change func(*modelkit.Llama)
		want   string
	}{
		{"missing embedding", drop("model.embed_tokens.weight"), `tensor "model.embed_tokens.weight" is missing: expected with shape [67 40]`},
		{"missing projection", drop("model.layers.2.self_attn.v_proj.weight"), `tensor "model.layers.2.self_attn.v_proj.weight" is missing: expected with shape [20 40]`},
		{"missing head", drop("lm_head.weight"), `tensor "lm_head.weight" is missing: expected with shape [67 40]`},
		{"other shape", func(m *modelkit.Llama) { m.Tensor("model.layers.1.mlp.down_proj.weight").Shape = []int{52, 40} },
			`model.safetensors: tensor "model.layers.1.mlp.down_proj.weight" has shape [52 40]; config.json asks for [40 52]`},
		{"flat shape", func(m *modelkit.Llama) { m.Tensor("lm_head.weight").Shape = []int{67 * 40} }, "has shape [2680]; config.json asks for [67 40]"},
		{"norm as a matrix", func(m *modelkit.Llama) { m.Tensor("model.norm.weight").Shape = []int{1, 40} }, "has shape [1 40]; config.json asks for [40]"},
		{"more layers than the config", func(m *modelkit.Llama) { m.Layers = 2 }, `9 tensors have no place in the architecture that config.json describes, the first is "model.layers.2.`},
		{"a bias", func(m *modelkit.Llama) {
			m.Tensors = append(m.Tensors, modelkit.Tensor{Name: "model.layers.0.self_attn.q_proj.bias", Shape: []int{1}, Values: []float32{0}})
		}, `1 tensors have no place`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			small := modelkit.Small(1)
			c.change(small)
			require.ErrorContains(t, loadError(t, small.Write(t, "F32", 1), options(t)), c.want)
		})
	}
	t.Run("other element type", func(t *testing.T) {
		small := modelkit.Small(1)
		dir := small.Write(t, "F32", 1)
		b := modelkit.Safetensors(t, "F32", small.Tensors...)
		b = []byte(strings.Replace(string(b), `"lm_head.weight":{"dtype":"F32"`, `"lm_head.weight":{"dtype":"I32"`, 1))
		modelkit.WriteFile(t, dir, weightsFile, b)
		require.ErrorContains(t, loadError(t, dir, options(t)), `tensor "lm_head.weight" has element type I32; supported: F32, F16, BF16, and of matrices`)
	})
}

// Tensors that do no harm are let by.
func TestSurplusTensors(t *testing.T) {
	small := modelkit.Small(1)
	small.Tied = true
	small.Tensors = append(small.Tensors, modelkit.Tensor{
		Name: "model.layers.0.self_attn.rotary_emb.inv_freq", Shape: []int{1}, Values: []float32{1}})
	m := load(t, small.Write(t, "F32", 1), options(t)) // a tied model with an lm_head.weight of its own
	require.EqualValues(t, 40*67+40+3*(2*40+2*60*40+2*20*40+3*40*52), m.NumParameters())
}

func TestConversionThatOverflowsIsRefused(t *testing.T) {
	small := modelkit.Small(1)
	small.Tensor("model.layers.1.mlp.up_proj.weight").Values[5] = 1 << 17
	o := options(t)
	o.DType = "float16"
	require.ErrorContains(t, loadError(t, small.Write(t, "F32", 1), o),
		`tensor "model.layers.1.mlp.up_proj.weight" holds 131072, which float16 cannot represent`)
}

// shrinking is a backend that reads weights on the loader's goroutine, after
// their file has lost its pages.
type shrinking struct {
	*tapped
	path string
}

func (b shrinking) NewMatrix(parts ...compute.RawTensor) (compute.Matrix, error) {
	if err := os.Truncate(b.path, 0); err != nil {
		return nil, err
	}
	for _, v := range parts[0].Data {
		if v == 1 {
			break
		}
	}
	return b.tapped.NewMatrix(parts...)
}

// A file that shrinks under the loader is an error, not a SIGBUS.
func TestFileThatShrinksWhileLoading(t *testing.T) {
	small := modelkit.Small(1)
	small.Hidden, small.Intermediate = 120, 300 // several pages per tensor
	small.Randomize(1)
	dir := small.Write(t, "F32", 1)
	o := options(t)
	o.Progress = func(done, total int64) {
		if done > total/2 {
			require.NoError(t, os.Truncate(filepath.Join(dir, weightsFile), 4096))
		}
	}
	require.ErrorContains(t, loadError(t, dir, o), "model.safetensors became shorter")

	dir = small.Write(t, "F32", 1)
	o = options(t)
	o.Backend = shrinking{o.Backend.(*tapped), filepath.Join(dir, weightsFile)}
	require.ErrorContains(t, loadError(t, dir, o), `the file of tensor "model.embed_tokens.weight" became shorter`)
}

func TestProgressReachesTheTotal(t *testing.T) {
	small, o := modelkit.Small(1), options(t)
	var seen []int64
	var total int64
	o.Progress = func(done, of int64) { seen, total = append(seen, done), of }
	m := load(t, small.Write(t, "BF16", 2), o)
	require.Equal(t, 2*m.NumParameters(), total)
	require.Zero(t, seen[0])
	require.Equal(t, total, seen[len(seen)-1])
	require.IsIncreasing(t, seen)
}

// discarding is a backend that takes no weights, so that only what Load itself
// allocates is seen.
type discarding struct{ *tapped }

func (discarding) NewMatrix(...compute.RawTensor) (compute.Matrix, error) { return nil, nil }

func TestWeightsDoNotPassThroughTheHeap(t *testing.T) {
	o := options(t)
	o.Backend = discarding{o.Backend.(*tapped)}
	o.MaxNumBatchedTokens = 1
	allocated := func(f *model.Folder) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		loadFolder(t, f, o)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	dir, err := model.OpenDir("understudy/understudy")
	require.NoError(t, err)
	const limit = 1 << 20 // of weights of 5.6 MB
	require.Less(t, allocated(dir), uint64(limit), "mapped file")
	require.Less(t, allocated(understudy.Embedded()), uint64(limit), "part of the binary")
}

func TestUnderstudyFolders(t *testing.T) {
	for _, f := range []*model.Folder{understudy.Embedded(), understudy.EmbeddedDraft()} {
		onDisk, err := model.OpenDir(filepath.Join("understudy", f.Name()))
		require.NoError(t, err)
		for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", weightsFile} {
			require.True(t, f.Has(name))
			require.True(t, onDisk.Has(name))
			want, err := onDisk.File(name)
			require.NoError(t, err)
			got, err := f.File(name)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		_, err = f.File("chat_template.jinja")
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = onDisk.File("chat_template.jinja")
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	m := loadFolder(t, understudy.Embedded(), options(t))
	require.EqualValues(t, 2_828_736, m.NumParameters())
	require.Equal(t, "bfloat16", m.Spec().DType)
	d := m.Defaults()
	require.Equal(t, []float64{0.3, 0.9}, []float64{*d.Temperature, *d.TopP})
	require.Equal(t, 20, *d.TopK)
	require.Nil(t, d.MinP)
	require.Nil(t, d.MaxNewTokens)
	require.EqualValues(t, 393_696, loadFolder(t, understudy.EmbeddedDraft(), options(t)).NumParameters())
}

func TestGenerationConfigOption(t *testing.T) {
	small := modelkit.Small(1)
	dir, other := small.Write(t, "F32", 1), t.TempDir()
	modelkit.WriteFile(t, dir, "generation_config.json",
		[]byte(`{"eos_token_id":[3,4],"temperature":0,"min_p":0.1,"repetition_penalty":1.5,"max_new_tokens":9,"top_k":null}`))
	modelkit.WriteFile(t, other, "generation_config.json", []byte(`{"top_k":-1}`))
	with := func(option string) *model.Model {
		o := options(t)
		o.GenerationConfig = option
		return load(t, dir, o)
	}
	own := with("auto")
	require.Equal(t, []int32{3, 4}, own.EOSTokenIDs())
	require.Zero(t, *own.Defaults().Temperature)
	require.Equal(t, 0.1, *own.Defaults().MinP)
	require.Equal(t, 1.5, *own.Defaults().RepetitionPenalty)
	require.Equal(t, 9, *own.Defaults().MaxNewTokens)
	require.Nil(t, own.Defaults().TopK)
	require.Nil(t, own.Defaults().TopP)

	none := with("vllm")
	require.Equal(t, infer.SamplingDefaults{}, none.Defaults())
	require.Equal(t, []int32{3, 4}, none.EOSTokenIDs(), "where text ends is no matter of taste")

	elsewhere := with(other)
	require.Equal(t, -1, *elsewhere.Defaults().TopK)
	require.Nil(t, elsewhere.Defaults().Temperature)
	require.Equal(t, []int32{3, 4}, elsewhere.EOSTokenIDs())

	o := options(t)
	o.GenerationConfig = filepath.Join(other, "missing")
	require.ErrorContains(t, loadError(t, dir, o), "--generation-config is not auto, vllm or a readable folder")

	require.NoError(t, os.Remove(filepath.Join(dir, "generation_config.json")))
	require.Equal(t, []int32{1}, with("auto").EOSTokenIDs(), "config.json's own")
}

func TestDefaultCacheBudget(t *testing.T) {
	c := &model.Config{NumLayers: 16, NumKVHeads: 8, HeadDim: 64, MaxPositionEmbeddings: 8192}
	const blockBytes = 2 * 16 * 16 * 8 * 64 * 4
	o := model.Options{MaxNumSeqs: 256}
	blocks, longest, err := model.ResolveSizes(c, o, 8<<30)
	require.NoError(t, err)
	require.Equal(t, 2<<30/blockBytes, blocks, "a quarter of the available memory")
	require.Equal(t, 8192, longest)
	blocks, _, err = model.ResolveSizes(c, o, 1<<40)
	require.NoError(t, err)
	require.Equal(t, 4<<30/blockBytes, blocks, "at most 4 GiB")
	_, _, err = model.ResolveSizes(c, o, 1<<30)
	require.ErrorContains(t, err, "(set by a quarter of the available memory, at most 4 GiB), but one sequence of 8192 tokens needs 512 blocks, 536870912 bytes: set --kv-cache-memory-bytes, or lower --max-model-len to at most 4096")
	_, _, err = model.ResolveSizes(c, o, -5)
	require.ErrorContains(t, err, "the KV cache holds 0 blocks")
	o.MaxModelLen = -1
	_, longest, err = model.ResolveSizes(c, o, 1<<30)
	require.NoError(t, err)
	require.Equal(t, 4096, longest)
}

func TestSizes(t *testing.T) {
	small := modelkit.Small(1) // context 96; 2 kv heads of 10, 3 layers: 480 bytes per token in float32
	dir := small.Write(t, "F32", 1)
	const blockBytes = 16 * 480
	cases := []struct {
		name          string
		change        func(*model.Options)
		blocks, limit int
		err           string
	}{
		{"default is what all sequences need", func(o *model.Options) { o.MaxNumSeqs = 5 }, 30, 96, ""},
		{"shorter context", func(o *model.Options) { o.MaxNumSeqs, o.MaxModelLen = 5, 33 }, 15, 33, ""},
		{"block size", func(o *model.Options) { o.MaxNumSeqs, o.BlockSize = 2, 10 }, 20, 96, ""},
		{"override", func(o *model.Options) { o.NumBlocksOverride = 6 }, 6, 96, ""},
		{"override beats bytes", func(o *model.Options) { o.NumBlocksOverride, o.KVCacheMemoryBytes = 7, 1 }, 7, 96, ""},
		{"bytes", func(o *model.Options) { o.KVCacheMemoryBytes = 8*blockBytes - 1 }, 7, 96, ""},
		{"bytes in float16", func(o *model.Options) { o.KVCacheMemoryBytes, o.KVCacheDType = 8*blockBytes, "float16" }, 16, 96, ""},
		{"bytes in int8", func(o *model.Options) { o.KVCacheMemoryBytes, o.KVCacheDType = 8*blockBytes, "int8" }, 22, 96, ""},
		{"all memory at once", func(o *model.Options) { o.NumBlocksOverride, o.PrefaultKVCache = 6, true }, 6, 96, ""},
		{"more at once than there is", func(o *model.Options) { o.NumBlocksOverride, o.BlockSize, o.PrefaultKVCache = 1<<24, 1024, true }, 0, 0,
			"--kv-cache-prefault takes 8246337208320 bytes of memory for the KV cache, but only "},
		{"largest that fits", func(o *model.Options) { o.KVCacheMemoryBytes, o.MaxModelLen = 5*blockBytes, -1 }, 5, 80, ""},
		{"largest is the config's", func(o *model.Options) { o.NumBlocksOverride, o.MaxModelLen = 50, -1 }, 50, 96, ""},
		{"override too small", func(o *model.Options) { o.NumBlocksOverride = 5 }, 0, 0,
			"the KV cache holds 5 blocks of 16 tokens (set by --num-gpu-blocks-override), but one sequence of 96 tokens needs 6 blocks, 46080 bytes: raise it, or lower --max-model-len to at most 80"},
		{"bytes too small", func(o *model.Options) { o.KVCacheMemoryBytes = 10 }, 0, 0, "(set by --kv-cache-memory-bytes)"},
		{"nothing fits", func(o *model.Options) { o.KVCacheMemoryBytes, o.MaxModelLen = 10, -1 }, 0, 0, "(set by --kv-cache-memory-bytes)"},
		{"context above the model's", func(o *model.Options) { o.MaxModelLen = 97 }, 0, 0, "--max-model-len is 97, but the model's max_position_embeddings is 96"},
		{"negative context", func(o *model.Options) { o.MaxModelLen = -2 }, 0, 0, "--max-model-len is -2"},
		{"block size", func(o *model.Options) { o.BlockSize = -1 }, 0, 0, "--block-size is -1"},
		{"no sequences", func(o *model.Options) { o.MaxNumSeqs = 0 }, 0, 0, "--max-num-seqs is 0"},
		{"no tokens", func(o *model.Options) { o.MaxNumBatchedTokens = 0 }, 0, 0, "--max-num-batched-tokens is 0"},
		{"override out of range", func(o *model.Options) { o.NumBlocksOverride = math.MaxInt }, 0, 0, "--num-gpu-blocks-override is"},
		{"negative bytes", func(o *model.Options) { o.KVCacheMemoryBytes = -1 }, 0, 0, "--kv-cache-memory-bytes is -1"},
		{"dtype", func(o *model.Options) { o.DType = "int4" }, 0, 0, `--dtype is "int4"; it must be auto, float32, float16 or bfloat16`},
		{"cache dtype", func(o *model.Options) { o.KVCacheDType = "fp8" }, 0, 0, `--kv-cache-dtype is "fp8"; it must be auto, float32, float16, bfloat16 or int8`},
		{"backend", func(o *model.Options) { o.Backend = nil }, 0, 0, "no compute backend"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := options(t)
			c.change(&o)
			if c.err != "" {
				require.ErrorContains(t, loadError(t, dir, o), c.err)
				return
			}
			m := load(t, dir, o)
			require.Equal(t, c.blocks, m.Spec().NumBlocks)
			require.Equal(t, c.limit, m.MaxModelLen())
			require.Equal(t, c.blocks, newRunner(t, m).Spec().NumBlocks)
		})
	}
}

// TestAutoKVCacheDType: keys and values are as wide as a model of float32, and half
// as wide for others.
func TestAutoKVCacheDType(t *testing.T) {
	small := modelkit.Small(3)
	for dtype, want := range map[string]compute.DType{"F32": compute.F32, "F16": compute.F16, "BF16": compute.F16} {
		require.Equal(t, want, load(t, small.Write(t, dtype, 1), options(t)).KVSpec().DType, dtype)
	}
	o := options(t)
	o.DType = "float32"
	require.Equal(t, compute.F32, load(t, small.Write(t, "BF16", 1), o).KVSpec().DType)
}

// A model without weights is described as the model with them is, and has no runners.
func TestLoadWithoutWeights(t *testing.T) {
	o := options(t)
	whole := loadFolder(t, understudy.Embedded(), o)
	o.NoWeights = true
	hollow := loadFolder(t, understudy.Embedded(), o)
	require.Equal(t, whole.Spec(), hollow.Spec())
	require.Equal(t, whole.Config(), hollow.Config())
	require.Equal(t, whole.NumParameters(), hollow.NumParameters())
	require.Equal(t, whole.EOSTokenIDs(), hollow.EOSTokenIDs())
	_, err := hollow.NewRunner()
	require.ErrorContains(t, err, "without weights")
}

// A context for whose keys and values this machine has no memory is no concern of a
// model that computes nothing.
func TestLoadWithoutWeightsNeedsNoMemory(t *testing.T) {
	long := modelkit.Small(3)
	long.Context = 1 << 25
	dir := long.Write(t, "BF16", 1)
	folder, err := model.OpenDir(dir)
	require.NoError(t, err)
	o := options(t)
	o.MaxModelLen = 0
	_, err = model.Load(folder, o)
	require.ErrorContains(t, err, "--max-model-len")
	o.NoWeights = true
	hollow, err := model.Load(folder, o)
	require.NoError(t, err)
	require.Equal(t, 1<<25, hollow.MaxModelLen())
}
