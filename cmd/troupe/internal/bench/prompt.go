package bench

import (
	"math/rand/v2"
	"strings"
)

// words are short and common, so that most tokenizers have a token for each.
var words = strings.Fields(`
the of and to in a is that for it was on are as with his they at be this from I have or by one had not but what all were
when we there can an your which their said if do will each about how up out them then she many some so these would other
into has more her two like him see time could no make than first been its who now people my made over did down only way
find use may water long little very after words called just where most know get through back much go good new write our`)

// prompter writes prompts of about the wanted number of tokens. Each is drawn
// anew, so that prefix caches do not help.
type prompter struct {
	numTokens     int
	wordsPerToken float64 // measured in the warm-up
	seed          uint64
}

// text returns the prompt of request i: a pure function of seed and i.
func (p *prompter) text(i int) string {
	rng := rand.New(rand.NewPCG(p.seed, uint64(i)))
	var b strings.Builder
	for w := range p.numWords() {
		if w > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(words[rng.IntN(len(words))])
	}
	return b.String()
}

// numWords returns how many words text writes.
func (p *prompter) numWords() int { return max(1, int(float64(p.numTokens)*p.wordsPerToken+0.5)) }

// calibrate corrects the length by what a warm-up prompt was billed.
func (p *prompter) calibrate(numPromptTokens int) {
	if numPromptTokens > 0 {
		p.wordsPerToken = min(maxWordsPerToken, max(1/float64(maxWordsPerToken), float64(p.numWords())/float64(numPromptTokens)))
	}
}

// maxWordsPerToken keeps a server that counts oddly from asking for giant prompts.
const maxWordsPerToken = 16
