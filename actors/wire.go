package actors

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-llm/troupe/cluster/clusterpb"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// What the actors say to each other, as it crosses nodes. An instant crosses as its
// age: the receiver counts back from the moment of arrival, so that it is off by the
// time on the way and nothing else. Counts that one environment keeps cross as what
// has been counted since.

// age returns how long ago an instant was, at least 1; 0 if it is not known.
func age(now, instant int64) int64 {
	if instant == 0 {
		return 0
	}
	return max(now-instant, 1)
}

// instant is the inverse of age, never before since.
func instant(now, age, since int64) int64 {
	if age == 0 {
		return 0
	}
	return max(now-age, since, 1)
}

func wireStamps(s *infer.Stamps, now int64) *clusterpb.Stamps {
	return &clusterpb.Stamps{
		QueuedAge: age(now, s.Queued), ScheduledAge: age(now, s.Scheduled),
		FirstTokenAge: age(now, s.FirstToken), LastTokenAge: age(now, s.LastToken),
	}
}

func fromWireStamps(w *clusterpb.Stamps, now int64) infer.Stamps {
	return infer.Stamps{
		Queued: instant(now, w.GetQueuedAge(), 0), Scheduled: instant(now, w.GetScheduledAge(), 0),
		FirstToken: instant(now, w.GetFirstTokenAge(), 0), LastToken: instant(now, w.GetLastTokenAge(), 0),
	}
}

// follow brings the front's stamps up to what a worker knows. Those that the front
// had stay; new ones are never before them.
func follow(s *infer.Stamps, w *clusterpb.Stamps, now int64) {
	if s.Scheduled == 0 {
		s.Scheduled = instant(now, w.GetScheduledAge(), s.Queued)
	}
	if s.FirstToken == 0 {
		s.FirstToken = instant(now, w.GetFirstTokenAge(), max(s.Queued, s.Scheduled))
	}
	if w.GetLastTokenAge() > 0 {
		s.LastToken = instant(now, w.GetLastTokenAge(), max(s.LastToken, s.FirstToken))
	}
}

func (e *environment) wireCrashes(c *Crashes, now int64) *clusterpb.Crashes {
	if *c == (Crashes{}) {
		return nil
	}
	since := func(total, then uint64) uint64 { return total - min(then, total) }
	return &clusterpb.Crashes{
		Num: int32(c.Num), NumLone: int32(c.NumLone), At: int32(c.At), SinceAge: age(now, c.Since),
		AcquittalsSinceFirst: since(e.acquittals.Load(), c.acquittalsAtFirst), FailuresSinceFirst: since(e.failures.Load(), c.failuresAtFirst),
		GoodSinceFirst: since(e.goodSteps.Load(), c.goodAtFirst), GoodSinceLone: since(e.goodSteps.Load(), c.goodAtLone),
	}
}

func (e *environment) fromWireCrashes(w *clusterpb.Crashes, now int64) Crashes {
	if w == nil {
		return Crashes{}
	}
	then := func(total, since uint64) uint64 { return total - min(since, total) }
	return Crashes{
		Num: int(w.GetNum()), NumLone: int(w.GetNumLone()), At: int(w.GetAt()), Since: instant(now, w.GetSinceAge(), 0),
		acquittalsAtFirst: then(e.acquittals.Load(), w.GetAcquittalsSinceFirst()), failuresAtFirst: then(e.failures.Load(), w.GetFailuresSinceFirst()),
		goodAtFirst: then(e.goodSteps.Load(), w.GetGoodSinceFirst()), goodAtLone: then(e.goodSteps.Load(), w.GetGoodSinceLone()),
	}
}

func wireError(err *infer.Error) *clusterpb.Error {
	if err == nil {
		return nil
	}
	w := &clusterpb.Error{Code: string(err.Code), Param: err.Param, Message: err.Message, RetryAfter: int64(err.RetryAfter)}
	if err.Err != nil {
		w.Cause = err.Err.Error()
	}
	return w
}

func fromWireError(w *clusterpb.Error) *infer.Error {
	if w == nil {
		return nil
	}
	err := &infer.Error{Code: infer.Code(w.GetCode()), Param: w.GetParam(), Message: w.GetMessage(), RetryAfter: time.Duration(w.GetRetryAfter())}
	if w.GetCause() != "" {
		err.Err = fmt.Errorf("on another node: %s", w.GetCause())
	}
	return err
}

// wireAdd is a sequence on its way to a worker.
func (e *environment) wireAdd(m *AddSequence, now int64) *clusterpb.AddSequence {
	w := &clusterpb.AddSequence{
		SeqId: uint64(m.SeqID), PromptTokenIds: m.PromptTokenIDs, OutputTokenIds: m.OutputTokenIDs, Params: wireParams(m.Params),
		Priority: int64(m.Priority), ArrivalAge: age(now, m.Arrival), CacheSalt: m.CacheSalt, Key: m.Key, KeyWeight: int32(m.KeyWeight),
		NumPromptLogprobs: int32(m.NumPromptLogprobs), Stamps: wireStamps(&m.Stamps, now), Crashes: e.wireCrashes(&m.Crashes, now),
		Account: m.account != nil, Form: wireForm(m.Params.Grammar),
	}
	if m.demand != nil {
		w.Prefixes = m.demand.Prefixes
	}
	return w
}

// fromWire is a sequence as the worker's batcher gets it, without its id and whom to
// reply to. What the scheduler does not look at is checked here.
func (e *environment) fromWire(w *clusterpb.AddSequence, vocabSize int, now int64) (*AddSequence, *infer.Error) {
	if err := checkWire(w, vocabSize); err != nil {
		return nil, infer.Internal(err)
	}
	return &AddSequence{
		PromptTokenIDs: w.GetPromptTokenIds(), OutputTokenIDs: w.GetOutputTokenIds(), Params: fromWireParams(w.GetParams()),
		Priority: int(w.GetPriority()), Arrival: instant(now, w.GetArrivalAge(), 0), CacheSalt: w.GetCacheSalt(),
		Key: w.GetKey(), KeyWeight: int(w.GetKeyWeight()), NumPromptLogprobs: int(w.GetNumPromptLogprobs()),
		Stamps: fromWireStamps(w.GetStamps(), now), Crashes: e.fromWireCrashes(w.GetCrashes(), now),
	}, nil
}

func checkWire(w *clusterpb.AddSequence, vocabSize int) error {
	if len(w.GetPromptTokenIds()) == 0 || w.GetParams() == nil {
		return errors.New("actors: a sequence of another node has no prompt or no parameters")
	}
	for _, ids := range [][]int32{w.GetPromptTokenIds(), w.GetOutputTokenIds(), w.GetParams().GetBiasTokenIds(), w.GetParams().GetAllowedTokenIds()} {
		for _, id := range ids {
			if id < 0 || int(id) >= vocabSize {
				return fmt.Errorf("actors: a sequence of another node has token %d, the vocabulary has %d", id, vocabSize)
			}
		}
	}
	if len(w.GetParams().GetBiasTokenIds()) != len(w.GetParams().GetBiasValues()) {
		return errors.New("actors: a sequence of another node has a bias without a value")
	}
	return nil
}

// wireParams leaves out what the front does itself: stop strings, and how text looks.
func wireParams(p *infer.SamplingParams) *clusterpb.SamplingParams {
	w := &clusterpb.SamplingParams{
		Temperature: p.Temperature, TopP: p.TopP, TopK: int32(p.TopK), MinP: p.MinP, PresencePenalty: p.PresencePenalty,
		FrequencyPenalty: p.FrequencyPenalty, RepetitionPenalty: p.RepetitionPenalty, Seed: p.Seed,
		MaxTokens: int32(p.MaxTokens), MinTokens: int32(p.MinTokens), StopTokenIds: p.StopTokenIDs, EosTokenIds: p.EOSTokenIDs,
		IgnoreEos: p.IgnoreEOS, AllowedTokenIds: p.AllowedTokenIDs, HasAllowed: p.AllowedTokenIDs != nil,
		NumLogprobs: int32(p.NumLogprobs), NumPromptLogprobs: int32(p.NumPromptLogprobs), ExtraArgs: p.ExtraArgs,
	}
	for _, b := range p.LogitBias {
		w.BiasTokenIds, w.BiasValues = append(w.BiasTokenIds, b.TokenID), append(w.BiasValues, b.Bias)
	}
	for _, ids := range p.BadWords {
		w.BadWords = append(w.BadWords, &clusterpb.TokenIDs{Ids: ids})
	}
	return w
}

func fromWireParams(w *clusterpb.SamplingParams) *infer.SamplingParams {
	p := &infer.SamplingParams{
		Temperature: w.GetTemperature(), TopP: w.GetTopP(), TopK: int(w.GetTopK()), MinP: w.GetMinP(), PresencePenalty: w.GetPresencePenalty(),
		FrequencyPenalty: w.GetFrequencyPenalty(), RepetitionPenalty: w.GetRepetitionPenalty(), Seed: w.GetSeed(),
		MaxTokens: int(w.GetMaxTokens()), MinTokens: int(w.GetMinTokens()), StopTokenIDs: w.GetStopTokenIds(), EOSTokenIDs: w.GetEosTokenIds(),
		IgnoreEOS: w.GetIgnoreEos(), NumLogprobs: int(w.GetNumLogprobs()), NumPromptLogprobs: int(w.GetNumPromptLogprobs()), ExtraArgs: w.GetExtraArgs(),
	}
	if w.GetHasAllowed() {
		p.AllowedTokenIDs = append([]int32{}, w.GetAllowedTokenIds()...)
	}
	for i, id := range w.GetBiasTokenIds() {
		p.LogitBias = append(p.LogitBias, infer.TokenBias{TokenID: id, Bias: w.GetBiasValues()[i]})
	}
	for _, words := range w.GetBadWords() {
		p.BadWords = append(p.BadWords, words.GetIds())
	}
	return p
}

// wireOutput is what a batcher says of a sequence on its way to the front; terminal =
// it says nothing more.
func (e *environment) wireOutput(message any, now int64) (w *clusterpb.SequenceOutput, terminal bool) {
	switch m := message.(type) {
	case *SequenceOutput:
		return wireStep(m, now), m.FinishReason != infer.FinishNone
	case *SequenceInterrupted:
		return &clusterpb.SequenceOutput{Interruption: &clusterpb.Interruption{
			Stamps: wireStamps(&m.Stamps, now), Crashes: e.wireCrashes(&m.Crashes, now), Error: wireError(m.Err),
		}}, true
	default:
		panic(fmt.Sprintf("actors: a batcher sent %T to another node's sequence", message))
	}
}

func wireStep(m *SequenceOutput, now int64) *clusterpb.SequenceOutput {
	w := &clusterpb.SequenceOutput{
		NewTokenIds: m.NewTokenIDs, NumOutputTokens: uint32(m.NumOutputTokens), LastTokenAge: age(now, m.LastToken),
		FinishReason: uint32(m.FinishReason), Stalled: m.Stalled,
	}
	d := m.Details
	if d == nil {
		return w
	}
	w.Details = &clusterpb.OutputDetails{
		Stamps: wireStamps(&d.Stamps, now), NumCachedTokens: d.NumCachedTokens, NumPreemptions: d.NumPreemptions, Error: wireError(d.Err),
		Logprobs: wireLogprobs(d.Logprobs), PromptLogprobs: wireLogprobs(d.PromptLogprobs),
		NumDraftTokens: int32(d.NumDraftTokens), NumAcceptedTokens: int32(d.NumAcceptedTokens), Lapse: wireLapse(d.Lapse),
	}
	if d.StopReason.ByToken {
		w.Details.StopTokenId = &d.StopReason.TokenID
	}
	return w
}

// output fills a message with what a worker says of a sequence, or says why that
// cannot be.
func (e *environment) output(m *SequenceOutput, w *clusterpb.SequenceOutput, s *remoteSequence, now int64) error {
	vocabSize := e.vocabSize
	for _, id := range w.GetNewTokenIds() {
		if id < 0 || int(id) >= vocabSize {
			return fmt.Errorf("it gave token %d, the vocabulary has %d", id, vocabSize)
		}
	}
	s.numTokens += len(w.GetNewTokenIds())
	if int(w.GetNumOutputTokens()) != s.numTokens || w.GetFinishReason() > uint32(infer.FinishRepetition) {
		return fmt.Errorf("its output has %d tokens by its count and %d by ours, and finish reason %d", w.GetNumOutputTokens(), s.numTokens, w.GetFinishReason())
	}
	follow(&s.stamps, &clusterpb.Stamps{LastTokenAge: w.GetLastTokenAge()}, now)
	*m = SequenceOutput{
		NewTokenIDs: w.GetNewTokenIds(), NumOutputTokens: s.numTokens, FinishReason: infer.FinishReason(w.GetFinishReason()), Stalled: w.GetStalled(),
	}
	if w.GetDetails() == nil {
		if s.logprobs && len(w.GetNewTokenIds()) > 0 {
			return errors.New("it gave a token without its logprobs")
		}
	} else if err := e.details(m, w.GetDetails(), s, now); err != nil {
		return err
	}
	if s.stamps.Scheduled != 0 {
		s.place.leaveQueue()
	}
	m.LastToken = s.stamps.LastToken
	return nil
}

func (e *environment) details(m *SequenceOutput, w *clusterpb.OutputDetails, s *remoteSequence, now int64) error {
	follow(&s.stamps, w.GetStamps(), now)
	d := &OutputDetails{
		Stamps: s.stamps, NumCachedTokens: w.GetNumCachedTokens(), NumPreemptions: w.GetNumPreemptions(), Err: fromWireError(w.GetError()),
		Logprobs: fromWireLogprobs(w.GetLogprobs()), PromptLogprobs: fromWireLogprobs(w.GetPromptLogprobs()), Lapse: fromWireLapse(w.GetLapse()),
	}
	if n := int(w.GetNumDraftTokens()); n > 0 && n <= e.numSpecTokens {
		d.NumDraftTokens, d.NumAcceptedTokens = n, min(max(int(w.GetNumAcceptedTokens()), 0), n)
	}
	if w.StopTokenId != nil {
		d.StopReason = infer.StopReason{TokenID: w.GetStopTokenId(), ByToken: true}
	}
	m.Details = d
	switch {
	case m.FinishReason == infer.FinishError && d.Err == nil:
		return errors.New("it gave an error without saying which")
	case s.logprobs && len(d.Logprobs) != len(m.NewTokenIDs):
		return fmt.Errorf("it gave %d tokens with %d logprobs", len(m.NewTokenIDs), len(d.Logprobs))
	}
	return errors.Join(checkLogprobs(d.Logprobs, e.vocabSize), checkLogprobs(d.PromptLogprobs, e.vocabSize))
}

// interrupted is the death of a worker's batcher as its sequences are told of it.
func (e *environment) interrupted(w *clusterpb.Interruption, s *remoteSequence, epoch uint64, now int64) *SequenceInterrupted {
	follow(&s.stamps, w.GetStamps(), now)
	return &SequenceInterrupted{
		Epoch: epoch, Stamps: s.stamps, Crashes: e.fromWireCrashes(w.GetCrashes(), now), Err: fromWireError(w.GetError()),
	}
}

func wireLogprobs(logprobs []infer.TokenLogprobs) []*clusterpb.TokenLogprobs {
	if len(logprobs) == 0 {
		return nil
	}
	one := func(l *infer.TokenLogprob) *clusterpb.TokenLogprob {
		return &clusterpb.TokenLogprob{TokenId: l.TokenID, Logprob: l.Logprob, Rank: l.Rank}
	}
	w := make([]*clusterpb.TokenLogprobs, len(logprobs))
	for i := range logprobs {
		w[i] = &clusterpb.TokenLogprobs{Token: one(&logprobs[i].Token), Top: make([]*clusterpb.TokenLogprob, len(logprobs[i].Top))}
		for j := range logprobs[i].Top {
			w[i].Top[j] = one(&logprobs[i].Top[j])
		}
	}
	return w
}

func fromWireLogprobs(w []*clusterpb.TokenLogprobs) []infer.TokenLogprobs {
	if len(w) == 0 {
		return nil
	}
	one := func(l *clusterpb.TokenLogprob) infer.TokenLogprob {
		return infer.TokenLogprob{TokenID: l.GetTokenId(), Logprob: l.GetLogprob(), Rank: l.GetRank()}
	}
	logprobs := make([]infer.TokenLogprobs, len(w))
	for i := range w {
		logprobs[i].Token = one(w[i].GetToken())
		if top := w[i].GetTop(); len(top) > 0 {
			logprobs[i].Top = make([]infer.TokenLogprob, len(top))
			for j := range top {
				logprobs[i].Top[j] = one(top[j])
			}
		}
	}
	return logprobs
}

func wireLapse(l *metrics.Lapse) *clusterpb.Lapse {
	if l == nil {
		return nil
	}
	return &clusterpb.Lapse{
		Prefill: l.Prefill, StalledByPrefill: l.StalledByPrefill, Masking: l.Masking, Preempted: l.Preempted, Recovering: l.Recovering,
		NumRecomputedTokens: int64(l.NumRecomputedTokens), NumPreemptions: int64(l.NumPreemptions),
	}
}

func fromWireLapse(w *clusterpb.Lapse) *metrics.Lapse {
	if w == nil {
		return nil
	}
	return &metrics.Lapse{
		Prefill: w.GetPrefill(), StalledByPrefill: w.GetStalledByPrefill(), Masking: w.GetMasking(), Preempted: w.GetPreempted(), Recovering: w.GetRecovering(),
		NumRecomputedTokens: int(w.GetNumRecomputedTokens()), NumPreemptions: int(w.GetNumPreemptions()),
	}
}
