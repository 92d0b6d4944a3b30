package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/chat"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
	"github.com/troupe-llm/troupe/tokenizer"
)

const tokenizerFile = "tokenizer.json"

// parts are what a model folder gives besides weights; they are cheap, and found
// to be right before anything large is loaded.
type parts struct {
	folder      *model.Folder
	tokenizer   *tokenizer.Tokenizer
	chatOptions chat.Options
	template    *chat.Template     // nil if there is none or it is broken
	templateErr error              // why the model's own template is broken
	maxModelLen int                // tokens: what flags or the model's config ask for
	speculation *model.Speculation // nil = off
}

func loadParts(cfg *config.Serve, log *slog.Logger) (*parts, error) {
	p := &parts{}
	var err error
	if p.folder, err = openFolder(cfg.Local(cfg.ModelPath())); err != nil {
		return nil, err
	}
	if p.maxModelLen, err = contextLength(cfg, p.folder); err != nil {
		return nil, err
	}
	if err := cfg.CheckContext(p.maxModelLen); err != nil {
		return nil, err
	}
	words := p.folder
	if cfg.Model.Tokenizer != "" {
		if words, err = openFolder(cfg.Local(cfg.Model.Tokenizer)); err != nil {
			return nil, err
		}
	}
	if p.tokenizer, err = loadTokenizer(words); err != nil {
		return nil, err
	}
	if err := p.openDraft(cfg, words); err != nil {
		return nil, err
	}
	return p, p.loadTemplate(cfg, words, log)
}

// openDraft opens the draft model's folder, if there is to be one.
func (p *parts) openDraft(cfg *config.Serve, words *model.Folder) error {
	speculation, err := cfg.Speculation()
	if speculation == nil || err != nil {
		return err
	}
	p.speculation = &model.Speculation{
		NumTokens: speculation.NumTokens, LookupMin: speculation.LookupMin, LookupMax: speculation.LookupMax,
	}
	if speculation.Method != config.MethodDraftModel {
		return nil
	}
	draft, err := openFolder(cfg.Local(speculation.Model))
	if err != nil {
		return fmt.Errorf("--speculative-config: %w", err)
	}
	p.speculation.Draft = draft
	return sameTokens(p.tokenizer, words, draft)
}

// sameTokens refuses a draft model whose tokenizer gives ids another meaning. A
// draft without a tokenizer is taken at its word.
func sameTokens(served *tokenizer.Tokenizer, words, draft *model.Folder) error {
	a, err := words.File(tokenizerFile)
	if err != nil {
		return missing(words, tokenizerFile, err)
	}
	b, err := draft.File(tokenizerFile)
	if err != nil || bytes.Equal(a, b) {
		return nil
	}
	other, err := loadTokenizer(draft)
	if err != nil {
		return fmt.Errorf("--speculative-config: the draft model's tokenizer: %w", err)
	}
	if served.VocabSize() != other.VocabSize() {
		return fmt.Errorf("--speculative-config: the draft model's tokenizer has %d tokens, the model's %d: they must be the same", other.VocabSize(), served.VocabSize())
	}
	for id := range int32(served.VocabSize()) {
		if served.TokenString(id) != other.TokenString(id) {
			return fmt.Errorf("--speculative-config: token %d is %q to the draft model and %q to the model: they must have the same tokenizer",
				id, other.TokenString(id), served.TokenString(id))
		}
	}
	return nil
}

// openFolder opens a model folder; "" and the built-in model's name mean that
// one, unless there is a folder of the name.
func openFolder(path string) (*model.Folder, error) {
	if path == "" {
		return understudy.Embedded(), nil
	}
	folder, err := model.OpenDir(path)
	switch {
	case err != nil && path == understudy.Name:
		return understudy.Embedded(), nil
	case err != nil && path == understudy.DraftName:
		return understudy.EmbeddedDraft(), nil
	}
	return folder, err
}

// contextLength returns the context length that is asked for, in tokens.
func contextLength(cfg *config.Serve, folder *model.Folder) (int, error) {
	b, err := folder.File("config.json")
	if err != nil {
		return 0, missing(folder, "config.json", err)
	}
	c, err := model.ParseConfig(b)
	if err != nil {
		return 0, err
	}
	if n := cfg.Model.MaxModelLen; n != nil && *n > 0 {
		return int(*n), nil
	}
	return c.MaxPositionEmbeddings, nil
}

// missing words the error of a file that a model folder must have.
func missing(folder *model.Folder, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no %s; a model folder in the Hugging Face layout is needed", folder.Name(), name)
	}
	return fmt.Errorf("%s: %s cannot be read: %w", folder.Name(), name, err)
}

func loadTokenizer(folder *model.Folder) (*tokenizer.Tokenizer, error) {
	b, err := folder.File(tokenizerFile)
	if err != nil {
		return nil, missing(folder, tokenizerFile, err)
	}
	var c tokenizer.Config
	switch text, err := folder.File("tokenizer_config.json"); {
	case err == nil:
		if c, err = tokenizer.ParseConfig(text); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return tokenizer.New(b, c)
}

// loadTemplate takes --chat-template, which must be right; else the model's own,
// which may be broken: completions work without it.
func (p *parts) loadTemplate(cfg *config.Serve, words *model.Folder, log *slog.Logger) error {
	c := p.tokenizer.Config()
	p.chatOptions = chat.Options{
		BOSToken: c.BOSToken, EOSToken: c.EOSToken, ContentFormat: cfg.Chat.ChatTemplateContentFormat,
	}
	if given := cfg.Chat.ChatTemplate; given != "" {
		source, err := templateSource(given)
		if err != nil {
			return err
		}
		if p.template, err = chat.Parse(source, p.chatOptions); err != nil {
			return fmt.Errorf("--chat-template is invalid: %s", errorLine(err))
		}
		return nil
	}
	source := c.ChatTemplate
	switch text, err := words.File("chat_template.jinja"); {
	case err == nil:
		source = string(text)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if source == "" {
		log.Warn("The model has no chat template: chat completions are refused; give it one with --chat-template")
		return nil
	}
	p.template, p.templateErr = chat.Parse(source, p.chatOptions)
	if p.templateErr != nil {
		p.template = nil
		log.Warn("The model's chat template is broken: chat completions are refused: " + errorLine(p.templateErr))
	}
	return nil
}

// maxTemplateBytes bounds a template file.
const maxTemplateBytes = 1 << 20

// templateSource reads a file, or takes what looks like Jinja as it is.
func templateSource(given string) (string, error) {
	info, err := os.Stat(given)
	if err != nil {
		if strings.ContainsAny(given, "{}\n") {
			return given, nil
		}
		return "", fmt.Errorf("--chat-template %q is neither a file nor a template: %w", given, errors.Unwrap(err))
	}
	if !info.Mode().IsRegular() || info.Size() > maxTemplateBytes {
		return "", fmt.Errorf("--chat-template %q is not a file of at most %d bytes", given, maxTemplateBytes)
	}
	text, err := os.ReadFile(given)
	if err != nil {
		return "", fmt.Errorf("--chat-template: %w", err)
	}
	return string(text), nil
}

// loadModel loads the weights. The backend is the caller's.
func loadModel(cfg *config.Serve, p *parts, backend compute.Backend, show *progress, log *slog.Logger) (*model.Model, error) {
	defer show.stop()
	o := model.Options{
		Backend: backend, DType: cfg.Model.DType, Quantization: cfg.Model.Quantization, KVCacheDType: cfg.Scheduler.KVCacheDType,
		PrefaultKVCache: cfg.Scheduler.KVCachePrefault, BlockSize: cfg.BlockSize(), MaxNumSeqs: cfg.MaxNumSeqs(),
		GenerationConfig: cfg.Model.GenerationConfig, Speculation: p.speculation, Progress: show.update,
		WeightsCache: cfg.Model.WeightsCache, Notice: func(line string) { log.Warn(line) },
	}
	o.NoWeights = cfg.Cluster.Role == config.RoleFront
	if n := cfg.Model.MaxModelLen; n != nil {
		o.MaxModelLen = int(*n)
	}
	if n := cfg.Scheduler.NumGPUBlocksOverride; n != nil {
		o.NumBlocksOverride = int(*n)
	}
	if n := cfg.Scheduler.KVCacheMemoryBytes; n != nil {
		o.KVCacheMemoryBytes = int64(*n)
	}
	o.MaxNumBatchedTokens = cfg.MaxNumBatchedTokens(p.maxModelLen)
	m, err := model.Load(p.folder, o)
	if err != nil {
		return nil, err
	}
	return m, checkVocabulary(p.tokenizer, m.Config().VocabSize)
}

// checkVocabulary refuses a tokenizer whose tokens the model does not have. Control
// tokens may be more: they stand for what is not text, as images do for Gemma 3.
func checkVocabulary(t *tokenizer.Tokenizer, size int) error {
	for id := size; id < t.VocabSize(); id++ {
		if !t.IsSpecial(int32(id)) {
			return fmt.Errorf("the tokenizer has %d tokens, the model only %d: they do not belong together", t.VocabSize(), size)
		}
	}
	return nil
}

// eosTokenIDs joins the model's end-of-sequence ids with the tokenizer's own.
func eosTokenIDs(m *model.Model, t *tokenizer.Tokenizer) []int32 {
	ids := slices.Clone(m.EOSTokenIDs())
	if id, ok := t.ID(t.Config().EOSToken); ok && !slices.Contains(ids, id) {
		ids = append(ids, id)
	}
	return ids
}

// modelInfo describes the model to clients.
func modelInfo(cfg *config.Serve, p *parts, m *model.Model) (infer.ModelInfo, error) {
	defaults, err := cfg.SamplingDefaults(m.Defaults())
	names, root := cfg.HTTP.ServedModelName, cmp.Or(cfg.ModelName(), p.folder.Name())
	if len(names) == 0 {
		names = []string{root}
	}
	return infer.ModelInfo{
		ServedNames: names, Root: root,
		MaxModelLen: m.MaxModelLen(), VocabSize: m.Config().VocabSize, Defaults: defaults,
	}, err
}
