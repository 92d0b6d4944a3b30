package tokenizer_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/tokenizer"
)

// byteVocab is the start of model.vocab with the 256 bytes.
func byteVocab(t testing.TB) string {
	f := readFeatures(t)
	parts := make([]string, 256)
	for id, form := range f.Bases["bytelevel"].Vocab[:256] {
		parts[id] = fmt.Sprintf("%q:%d", form, id)
	}
	return strings.Join(parts, ",")
}

const (
	goodPreTokenizer = `{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}`
	// goodStart is a file that is right up to the vocabulary, goodEnd what follows it.
	goodStart = `{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":257,"content":"<x>","special":true}],
		"normalizer":null,"pre_tokenizer":` + goodPreTokenizer + `,"post_processor":null,
		"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","unk_token":null,"vocab":{`
	goodEnd = `,"ab":256},"merges":["a b"]}}`
)

// unigramStart is a file of type Unigram up to the tokens.
const unigramStart = `{"decoder":{"type":"Fuse"},"model":{"type":"Unigram","vocab":[`

// charsmap is a charsmap whose trie claims to have size bytes.
func charsmap(size uint32, units []uint32, texts string) string {
	b := binary.LittleEndian.AppendUint32(nil, size)
	for _, u := range units {
		b = binary.LittleEndian.AppendUint32(b, u)
	}
	return base64.StdEncoding.EncodeToString(append(b, texts...))
}

func precompiledOf(charsmap string) string {
	return `"normalizer":{"type":"Precompiled","precompiled_charsmap":"` + charsmap + `"}`
}

// wrongFiles are made from the right one by replacing one text, or all of it if
// old is empty.
var wrongFiles = []struct {
	name, old, new string
	code           infer.Code
	param, says    string
}{
	{"truncated", `"merges":["a b"]}}`, `"merges":["a`, infer.CodeMalformed, "", "not JSON at byte"},
	{"not UTF-8", `"<x>"`, "\"<\xff>\"", infer.CodeMalformed, "", "not UTF-8"},
	{"a list", "", `[]`, infer.CodeMalformed, "", "array"},
	{"null", "", `null`, infer.CodeInvalid, "model", "missing"},
	{"no model", `"model":`, `"modem":`, infer.CodeInvalid, "model", "missing"},
	{"WordPiece", `"type":"BPE"`, `"type":"WordPiece"`, infer.CodeNotImplemented, "model.type", `"WordPiece"`},
	{"Unigram", `"type":"BPE"`, `"type":"Unigram"`, infer.CodeInvalid, "model.vocab", "list"},
	{"Unigram over bytes", "", `{"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"Unigram","vocab":[["a",-1.5]],"unk_id":0}}`, infer.CodeNotImplemented, "pre_tokenizer", "Unigram"},
	{"Unigram without unknown", "", unigramStart + `["a",-1.5]]}}`, infer.CodeInvalid, "model", "unk_id"},
	{"Unigram of nothing", "", unigramStart + `]}}`, infer.CodeInvalid, "model.vocab", "empty"},
	{"Unigram with unk_id beyond", "", unigramStart + `["a",-1.5]],"unk_id":1}}`, infer.CodeInvalid, "model.unk_id", "1"},
	{"Unigram with a negative unk_id", "", unigramStart + `["a",-1.5]],"unk_id":-1}}`, infer.CodeInvalid, "model.unk_id", "-1"},
	{"Unigram without a score", "", unigramStart + `["a"]],"unk_id":0}}`, infer.CodeInvalid, "model.vocab[0]", `"a"`},
	{"Unigram with two scores", "", unigramStart + `["a",1,2]],"unk_id":0}}`, infer.CodeInvalid, "model.vocab[0]", "2"},
	{"Unigram with a huge score", "", unigramStart + `["a",-1e999]],"unk_id":0}}`, infer.CodeInvalid, "model.vocab[0]", "-1e999"},
	{"Unigram with a score in words", "", unigramStart + `["a","1"]],"unk_id":0}}`, infer.CodeInvalid, "model.vocab[0]", `"1"`},
	{"Unigram of strings", "", unigramStart + `"a"],"unk_id":0}}`, infer.CodeInvalid, "model.vocab[0]", `"a"`},
	{"Unigram with a token twice", "", unigramStart + `["a",-1],["a",-2]],"unk_id":0}}`, infer.CodeInvalid, "model.vocab", "0 and 1"},
	{"Unigram with a long token", "", unigramStart + `["` + strings.Repeat("y", 600) + `",-1]],"unk_id":0}}`, infer.CodeTooLarge, "model.vocab", "600"},
	{"Unigram with a byte missing", "", unigramStart + `["<0x00>",-1]],"byte_fallback":true}}`, infer.CodeInvalid, "model.vocab", "<0x01>"},
	{"scores are missing", "", `{"decoder":{"type":"Fuse"},"model":{"type":"SentencePieceBPE","vocab":{"a":0},"unk_token":"a"}}`, infer.CodeInvalid, "model.scores", "id 0"},
	{"type of the wrong type", `"type":"BPE"`, `"type":5`, infer.CodeMalformed, "model.type", "number"},
	{"dropout", `"unk_token":null`, `"dropout":0.1`, infer.CodeNotImplemented, "model.dropout", "0.1"},
	{"prefix", `"unk_token":null`, `"continuing_subword_prefix":"##"`, infer.CodeNotImplemented, "model.continuing_subword_prefix", "##"},
	{"suffix", `"unk_token":null`, `"end_of_word_suffix":"</w>"`, infer.CodeNotImplemented, "model.end_of_word_suffix", "</w>"},
	{"vocab is a list", `"vocab":{`, `"vocab":[["x",1]],"was":{`, infer.CodeInvalid, "model.vocab", "object"},
	{"vocab is null", `"vocab":{`, `"vocab":null,"was":{`, infer.CodeInvalid, "model.vocab", "object"},
	{"vocab is absent", `"vocab":{`, `"was":{`, infer.CodeInvalid, "model.vocab", "missing"},
	{"id is a string", `"ab":256`, `"ab":"256"`, infer.CodeInvalid, "model.vocab", `"ab"`},
	{"id is a fraction", `"ab":256`, `"ab":1.5`, infer.CodeInvalid, "model.vocab", "1.5"},
	{"id is negative", `"ab":256`, `"ab":-1`, infer.CodeInvalid, "model.vocab", "-1"},
	{"id is huge", `"ab":256`, `"ab":4194304`, infer.CodeInvalid, "model.vocab", "4194304"},
	{"id is beyond numbers", `"ab":256`, `"ab":99999999999999999999`, infer.CodeInvalid, "model.vocab", "99999999999999999999"},
	{"two tokens, one id", `"ab":256`, `"ab":5`, infer.CodeInvalid, "model.vocab", "same id 5"},
	{"one token, two ids", `"ab":256`, `"ab":256,"ab":258`, infer.CodeInvalid, "model.vocab", "256 and 258"},
	{"empty token", `"ab":256`, `"ab":256,"":258`, infer.CodeInvalid, "model.vocab", "258"},
	{"half a surrogate", `"ab":256`, `"ab":256,"\ud800x":258`, infer.CodeInvalid, "model.vocab", "surrogate"},
	{"half a surrogate at the end", `"ab":256`, `"ab":256,"\ud83d":258`, infer.CodeInvalid, "model.vocab", "surrogate"},
	{"long token", `"ab":256`, `"ab":256,"` + strings.Repeat("y", 5000) + `":258`, infer.CodeTooLarge, "model.vocab", "5000"},
	{"a byte is missing", `"z":`, `"renamed":`, infer.CodeInvalid, "model.vocab", `"z"`},
	{"merge of one", `"a b"`, `"ab"`, infer.CodeInvalid, "model.merges[0]", `"ab"`},
	{"merge of three", `"a b"`, `"a b c"`, infer.CodeInvalid, "model.merges[0]", `"a b c"`},
	{"merge of three in a list", `["a b"]`, `["a b",["a","b","c"]]`, infer.CodeInvalid, "model.merges[1]", "3"},
	{"merge of nothing", `["a b"]`, `[[]]`, infer.CodeInvalid, "model.merges[0]", "0"},
	{"merge is a number", `["a b"]`, `["a b",7]`, infer.CodeInvalid, "model.merges[1]", "7"},
	{"merge with unknown token", `"a b"`, `"a zz"`, infer.CodeInvalid, "model.merges[0]", `"zz"`},
	{"merge into unknown token", `["a b"]`, `["a b","b a"]`, infer.CodeInvalid, "model.merges[1]", `"ba"`},
	{"merges is an object", `["a b"]`, `{}`, infer.CodeInvalid, "model.merges", "list"},
	{"added token without id", `"id":257,`, ``, infer.CodeInvalid, "added_tokens[0]", `"<x>"`},
	{"added token with a negative id", `"id":257`, `"id":-2`, infer.CodeInvalid, "added_tokens[0]", "-2"},
	{"added token with a fraction", `"id":257`, `"id":1.5`, infer.CodeMalformed, "added_tokens.id", "1.5"},
	{"added token with a huge id", `"id":257`, `"id":2000000000`, infer.CodeInvalid, "added_tokens[0]", "2000000000"},
	{"added token without content", `"content":"<x>"`, `"content":""`, infer.CodeInvalid, "added_tokens[0]", "empty"},
	{"added token too long", `"<x>"`, `"` + strings.Repeat("x", 1025) + `"`, infer.CodeTooLarge, "added_tokens[0]", "1025"},
	{"added token with another's id", `"id":257`, `"id":256`, infer.CodeInvalid, "added_tokens[0]", `"ab"`},
	{"added token with two ids", `"<x>"`, `"ab"`, infer.CodeInvalid, "added_tokens[0]", "256"},
	{"added token twice", `[{"id":257`, `[{"id":258,"content":"<x>"},{"id":257`, infer.CodeInvalid, "added_tokens[1]", "added_tokens[0]"},
	{"added id twice", `[{"id":257`, `[{"id":257,"content":"<y>"},{"id":257`, infer.CodeInvalid, "added_tokens[1]", "257"},
	{"added token normalized away", `"special":true}],
		"normalizer":null`, `"normalized":true}],"normalizer":{"type":"Replace","pattern":{"String":"<x>"},"content":""}`, infer.CodeInvalid, "added_tokens[0]", "normalizer"},
	{"normalizer", `"normalizer":null`, `"normalizer":{"type":"BertNormalizer"}`, infer.CodeNotImplemented, "normalizer", "BertNormalizer"},
	{"charsmap is no base64", `"normalizer":null`, precompiledOf("?"), infer.CodeInvalid, "normalizer.precompiled_charsmap", "base64"},
	{"charsmap is short", `"normalizer":null`, precompiledOf("AAA="), infer.CodeInvalid, "normalizer.precompiled_charsmap", "2 bytes"},
	{"charsmap with a trie beyond it", `"normalizer":null`, precompiledOf(charsmap(64, nil, "")), infer.CodeInvalid, "normalizer.precompiled_charsmap", "64 bytes, of 0"},
	{"charsmap that points beyond", `"normalizer":null`, precompiledOf(charsmap(8, []uint32{0, 1 | 1<<8 | 77<<10}, "")), infer.CodeInvalid, "normalizer.precompiled_charsmap", "points to unit 76"},
	{"charsmap in circles", `"normalizer":null`, precompiledOf(charsmap(8, []uint32{0, 1 | 1<<10}, "")), infer.CodeTooLarge, "normalizer.precompiled_charsmap", "length in bytes of a key is 129"},
	{"charsmap that explodes", `"normalizer":null`, precompiledOf(charsmap(16, []uint32{0, 1 | 1<<10, 2 | 2<<10, 3 | 3<<10}, "")), infer.CodeTooLarge, "normalizer.precompiled_charsmap", "length in bytes of a key"},
	{"charsmap with a text beyond", `"normalizer":null`, precompiledOf(charsmap(12, []uint32{0, 1 | 1<<8 | 3<<10, 9 | 1<<31}, "abc")), infer.CodeInvalid, "normalizer.precompiled_charsmap", "is at 9"},
	{"charsmap with a text of bytes", `"normalizer":null`, precompiledOf(charsmap(12, []uint32{0, 1 | 1<<8 | 3<<10, 1 | 1<<31}, "a\xff\x00")), infer.CodeInvalid, "normalizer.precompiled_charsmap", "UTF-8"},
	{"charsmap that grows texts", `"normalizer":null`, precompiledOf(charsmap(12, []uint32{0, 1 | 1<<8 | 3<<10, 0 | 1<<31}, strings.Repeat("a", 100))), infer.CodeTooLarge, "normalizer", "100"},
	{"normalizer in a sequence", `"normalizer":null`, `"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Nmt"}]}`, infer.CodeNotImplemented, "normalizer.normalizers[1]", "Nmt"},
	{"normalizer with a regex", `"normalizer":null`, `"normalizer":{"type":"Replace","pattern":{"Regex":" +"},"content":""}`, infer.CodeNotImplemented, "normalizer.pattern", " +"},
	{"normalizer that grows texts", `"normalizer":null`, `"normalizer":{"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaa"},{"type":"Prepend","prepend":"1234567"}]}`, infer.CodeTooLarge, "normalizer", "72"},
	{"normalizer without pattern", `"normalizer":null`, `"normalizer":{"type":"Replace","content":""}`, infer.CodeInvalid, "normalizer.pattern", "String or Regex"},
	{"normalizer is a string", `"normalizer":null`, `"normalizer":"NFC"`, infer.CodeMalformed, "normalizer", "string"},
	{"pre-tokenizer", goodPreTokenizer, `{"type":"BertPreTokenizer"}`, infer.CodeNotImplemented, "pre_tokenizer", "BertPreTokenizer"},
	{"pre-tokenizer without type", goodPreTokenizer, `{}`, infer.CodeNotImplemented, "pre_tokenizer", `""`},
	{"after ByteLevel", goodPreTokenizer, `{"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"Digits"}]}`, infer.CodeNotImplemented, "pre_tokenizer.pretokenizers[1]", "after ByteLevel"},
	{"behavior", goodPreTokenizer, `{"type":"Split","pattern":{"String":"a"},"behavior":"Explode"}`, infer.CodeInvalid, "pre_tokenizer.behavior", "Explode"},
	{"pattern", goodPreTokenizer, `{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"}`, infer.CodeInvalid, "pre_tokenizer.pattern.Regex", "(a"},
	{"two patterns", goodPreTokenizer, `{"type":"Split","pattern":{"Regex":"a","String":"b"},"behavior":"Isolated"}`, infer.CodeInvalid, "pre_tokenizer.pattern", "either"},
	{"empty pattern", goodPreTokenizer, `{"type":"Split","pattern":{"String":""},"behavior":"Isolated"}`, infer.CodeInvalid, "pre_tokenizer.pattern", "empty"},
	{"long pattern", goodPreTokenizer, `{"type":"Split","pattern":{"Regex":"` + strings.Repeat("a", 9000) + `"},"behavior":"Isolated"}`, infer.CodeTooLarge, "pre_tokenizer.pattern", "9000"},
	{"deep sequences", goodPreTokenizer, strings.Repeat(`{"type":"Sequence","pretokenizers":[`, 9) + strings.Repeat("]}", 9), infer.CodeTooLarge, "", "depth"},
	{"long sequence", goodPreTokenizer, `{"type":"Sequence","pretokenizers":[` + strings.Repeat(`null,`, 40) + `null]}`, infer.CodeTooLarge, "pre_tokenizer", "41"},
	{"prepend scheme", goodPreTokenizer, `{"type":"Metaspace","replacement":"▁","prepend_scheme":"last"}`, infer.CodeInvalid, "pre_tokenizer.prepend_scheme", "last"},
	{"replacement", goodPreTokenizer, `{"type":"Metaspace","replacement":"__"}`, infer.CodeInvalid, "pre_tokenizer.replacement", "__"},
	{"no pre-tokenizer, but byte-level decoder", goodPreTokenizer, `null`, infer.CodeNotImplemented, "decoder", "ByteLevel"},
	{"no decoder", `{"type":"ByteLevel"}`, `null`, infer.CodeNotImplemented, "decoder", "decoder"},
	{"decoder", `{"type":"ByteLevel"}`, `{"type":"WordPiece"}`, infer.CodeNotImplemented, "decoder", "WordPiece"},
	{"decoder that grows texts", `{"type":"ByteLevel"}`, `{"type":"Replace","pattern":{"String":"ab"},"content":"` + strings.Repeat("a", 130) + `"}`, infer.CodeTooLarge, "decoder", "65"},
	{"decoder strips the end", `{"type":"ByteLevel"}`, `{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":0,"stop":1}]}`, infer.CodeNotImplemented, "decoder.decoders[1]", "stop 1"},
	{"decoder strips too much", `{"type":"ByteLevel"}`, `{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":9999}]}`, infer.CodeInvalid, "decoder.decoders[1].start", "9999"},
	{"post-processor", `"post_processor":null`, `"post_processor":{"type":"BertProcessing"}`, infer.CodeNotImplemented, "post_processor", "BertProcessing"},
	{"template without text", `"post_processor":null`, `"post_processor":{"type":"TemplateProcessing","single":[]}`, infer.CodeInvalid, "post_processor.single", "0 times"},
	{"template with unknown name", `"post_processor":null`, `"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}]}`, infer.CodeInvalid, "post_processor.single[0]", "<s>"},
	{"template with unknown id", `"post_processor":null`, `"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"ids":[9999]}}}`, infer.CodeInvalid, "post_processor", "9999"},
	{"template for two texts", `"post_processor":null`, `"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"B"}}]}`, infer.CodeInvalid, "post_processor.single[0]", `"B"`},
	{"empty template item", `"post_processor":null`, `"post_processor":{"type":"TemplateProcessing","single":[{}]}`, infer.CodeInvalid, "post_processor.single[0]", "either"},
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	good := goodStart + byteVocab(t) + goodEnd
	_, err := tokenizer.New([]byte(good), tokenizer.Config{})
	require.NoError(t, err)
	for _, c := range wrongFiles {
		t.Run(c.name, func(t *testing.T) {
			file := c.new
			if c.old != "" {
				file = strings.Replace(good, c.old, c.new, 1)
			}
			require.NotEqual(t, good, file, "the case changes nothing")
			_, err := tokenizer.New([]byte(file), tokenizer.Config{})
			var e *infer.Error
			require.True(t, errors.As(err, &e), "%v", err)
			require.Equal(t, c.code, e.Code, e.Message)
			if c.param != "" {
				require.Equal(t, c.param, e.Param, e.Message)
			}
			require.Contains(t, e.Message, "tokenizer.json")
			require.Contains(t, e.Message, c.says)
			require.Less(t, len(e.Message), 400, "the message quotes no more than needed")
		})
	}
}

func TestNewNeedsAllTextToHaveIDs(t *testing.T) {
	const file = `{"pre_tokenizer":null,"decoder":{"type":"Fuse"},"model":{"type":"BPE","vocab":{"a":0,"<unk>":1},"merges":[]%s}}`
	_, err := tokenizer.New(fmt.Appendf(nil, file, ""), tokenizer.Config{})
	require.ErrorContains(t, err, "not every text could be encoded")
	_, err = tokenizer.New(fmt.Appendf(nil, file, `,"byte_fallback":true`), tokenizer.Config{})
	require.ErrorContains(t, err, "<0x00>")
	tok, err := tokenizer.New(fmt.Appendf(nil, file, `,"unk_token":"<unk>"`), tokenizer.Config{})
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 0}, tok.Encode("aba", tokenizer.EncodeOptions{}))
}

func TestVersionLineOfOldMergesIsNoMerge(t *testing.T) {
	file := `{"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},"model":{"vocab":{` + byteVocab(t) + `,"ab":256},"merges":["#version: 0.2","a b"]}}`
	tok, err := tokenizer.New([]byte(file), tokenizer.Config{})
	require.NoError(t, err)
	ids := tok.Encode(" ab", tokenizer.EncodeOptions{})
	require.Equal(t, int32(256), ids[len(ids)-1])
}

// What stays of a token is its texts and its places in the tables: the file,
// its strings and the lists made of them must be garbage.
func TestTokenizerDoesNotKeepItsFile(t *testing.T) {
	var vocab, merges []string
	merge := func(a, b string) {
		vocab = append(vocab, fmt.Sprintf("%q:%d", a+b, 256+len(vocab)))
		merges = append(merges, fmt.Sprintf("%q", a+" "+b))
	}
	letters := strings.Split("abcdefghijklmnopqrstuvwxyz", "")
	for _, a := range letters {
		for _, b := range letters {
			merge(a, b)
			for _, c := range letters {
				merge(a+b, c)
			}
		}
	}
	file := []byte(`{"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},"model":{"vocab":{` +
		byteVocab(t) + "," + strings.Join(vocab, ",") + `},"merges":[` + strings.Join(merges, ",") + `]}}`)
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	_, err := tokenizer.New(file, tokenizer.Config{}) // also makes the tables that all tokenizers share
	require.NoError(t, err)
	before := inUse()
	tok, err := tokenizer.New(file, tokenizer.Config{})
	require.NoError(t, err)
	require.Less(t, inUse()-before, int64(128*tok.VocabSize()))
	runtime.KeepAlive(file)
	runtime.KeepAlive(vocab)
	runtime.KeepAlive(merges)
}

func TestEscapesInVocabulary(t *testing.T) {
	file := `{"pre_tokenizer":{"type":"ByteLevel","use_regex":false},"decoder":{"type":"ByteLevel"},"model":{"vocab":{` + byteVocab(t) + `,"\u0041\u00c3":256,"\ud83d\ude00\\\/\b\f\n\r\t":257},"merges":[["\u0041","\u00c3"]]}}`
	tok, err := tokenizer.New([]byte(file), tokenizer.Config{})
	require.NoError(t, err)
	require.Equal(t, "A\xc3", string(tok.TokenBytes(256)))
	require.Equal(t, "😀\\/\b\f\n\r\t", tok.TokenString(257))
}

func TestParseConfig(t *testing.T) {
	c, err := tokenizer.ParseConfig([]byte(`{"bos_token":{"content":"<s>","special":true},"eos_token":"</s>","pad_token":null,"add_bos_token":true,
		"model_max_length":4096,"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}],"other":{}}`))
	require.NoError(t, err)
	yes := true
	require.Equal(t, tokenizer.Config{BOSToken: "<s>", EOSToken: "</s>", AddBOSToken: &yes, ChatTemplate: "D", ModelMaxLength: 4096}, c)

	c, err = tokenizer.ParseConfig([]byte(`{"model_max_length":1000000000000000019884624838656,"chat_template":"X"}`))
	require.NoError(t, err)
	require.Equal(t, tokenizer.Config{ChatTemplate: "X"}, c, "1e30 means that there is no bound")

	c, err = tokenizer.ParseConfig([]byte(`{"chat_template":[{"name":"only","template":"O"}]}`))
	require.NoError(t, err)
	require.Equal(t, "O", c.ChatTemplate)

	for text, param := range map[string]string{
		`{"bos_token":5}`: "bos_token", `{"add_bos_token":"yes"}`: "add_bos_token", `{`: "", `[]`: "",
		`{"chat_template":7}`: "chat_template", `{"chat_template":[{"name":"a"},{"name":"b"}]}`: "chat_template", `{"chat_template":[7]}`: "chat_template",
	} {
		_, err := tokenizer.ParseConfig([]byte(text))
		var e *infer.Error
		require.True(t, errors.As(err, &e), text)
		require.Equal(t, param, e.Param, text)
		require.Contains(t, e.Message, "tokenizer_config.json")
	}
}

func TestTypesAreNamedAsJSONDoes(t *testing.T) {
	for file, want := range map[string]string{
		`{"added_tokens":[{"id":"x"}]}`:                             "must be an integer, not string",
		`{"added_tokens":3}`:                                        "must be a list, not number",
		`{"model":{"type":"BPE","vocab":{"a":0},"dropout":"much"}}`: "must be a number, not string",
	} {
		_, err := tokenizer.New([]byte(file), tokenizer.Config{})
		require.ErrorContains(t, err, want, file)
		require.NotContains(t, err.Error(), "int32")
	}
}
