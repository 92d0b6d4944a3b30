package sampling

import (
	"math"

	"github.com/troupe-llm/troupe/infer"
)

// draw picks a token at random. best is the row's argmax.
//
// It uses the Gumbel-max trick: the winner is the token with the highest
// logit/temperature + g(token), where g is Gumbel noise that depends on seed,
// position and token id only. So the result depends neither on the order in which
// tokens are visited nor on which others were filtered out, and one definition
// serves CPUs and GPUs.
func (s *Sampler) draw(r Row, best int32) int32 {
	p := r.Params
	d := newDrawing(r, best)
	if !filters(p, s.vocabSize) {
		d.scan(r.Logits)
		return d.token
	}
	for _, c := range s.filter(r, &d) {
		d.consider(c.id, c.logit)
	}
	return d.token
}

func filters(p *infer.SamplingParams, vocabSize int) bool {
	return p.MinP > 0 || p.TopP < 1 || topK(p, vocabSize) < vocabSize
}

// topK returns the number of tokens that top_k keeps.
func topK(p *infer.SamplingParams, vocabSize int) int {
	if p.TopK <= 0 || p.TopK > vocabSize {
		return vocabSize
	}
	return p.TopK
}

// drawing is a running argmax of score = (logit - max)/temperature + noise.
type drawing struct {
	noise stream
	max   float64
	temp  float64

	token int32 // the best so far
	score float64
}

func newDrawing(r Row, best int32) drawing {
	d := drawing{
		noise: newStream(r.Params.Seed, len(r.Output)),
		max:   float64(r.Logits[best]),
		temp:  r.Params.Temperature,
		token: best,
	}
	// The most likely token comes first so that most others fail the quick test.
	d.score = gumbel(d.noise.uniform(best))
	return d
}

// scaled returns (logit - max)/temperature, <= 0. Subtracting first keeps tiny
// temperatures from overflowing; a quotient of -Inf is a probability of 0.
func (d *drawing) scaled(logit float32) float64 { return (float64(logit) - d.max) / d.temp }

// consider takes id as the winner if its score is higher, or equal with a lower id.
func (d *drawing) consider(id int32, logit float32) {
	x := d.scaled(logit)
	u := d.noise.uniform(id)
	if loses(u, d.score-x) {
		return
	}
	score := x + gumbel(u)
	if score > d.score || (score == d.score && id < d.token) {
		d.token, d.score = id, score
	}
}

// scan considers a whole row. It calls consider for the few tokens that the
// quick test leaves; for that test a product is exact enough in place of the quotient.
func (d *drawing) scan(logits []float32) {
	inverse := 1 / d.temp
	for i, v := range logits {
		if loses(d.noise.uniform(int32(i)), d.score-(float64(v)-d.max)*inverse) {
			continue
		}
		d.consider(int32(i), v)
	}
}

// loses reports whether a token with noise u that is behind the best score by t
// before its noise is added cannot win. It would need -log(u) <= exp(-t); for
// t > 0, as -log(u) >= 1-u and exp(-t) <= 1/(1+t+t*t/2), nearly all tokens are ruled
// out without a logarithm. Rounding does not matter: for a token that wins the
// product stays below 0.8.
func loses(u, t float64) bool { return t > 0 && (1-u)*(1+t*(1+t/2)) > 1 }

// filter returns the tokens that min_p, top_k and top_p leave, in no particular
// order, in scratch memory.
func (s *Sampler) filter(r Row, d *drawing) []candidate {
	p := r.Params
	floor := negInf
	if p.MinP > 0 {
		// p_i >= min_p * p_max is a bound on the logit itself.
		floor = ceil32(d.max + math.Log(p.MinP)*d.temp)
	}
	c := s.selectTop(r.Logits, topK(p, s.vocabSize), floor)
	if p.TopP < 1 {
		c = c[:nucleus(c, p.TopP, d)]
	}
	return c
}

// ceil32 returns the smallest float32 that is not below v.
func ceil32(v float64) float32 {
	f := float32(v)
	if float64(f) < v {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}
