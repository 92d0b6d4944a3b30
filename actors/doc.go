// Package actors runs requests: a supervised tree of actors behind the [Engine]
// façade. Read it in the order of a request's life:
//
//	Engine.Generate      template, tokens, lengths, admission. No actor yet: a refusal
//	                     is a plain error (engine.go, prepare.go, length.go, admission.go);
//	                     what the output must be like (structured.go, calls.go, thinking.go)
//	SupervisorActor      parent of all; spreads sequences over the batchers and
//	                     replaces one that died (supervisor.go)
//	├─ BatcherActor      one per device: scheduler and runner (batcher.go, device.go,
//	│                    watchdog.go); who broke a step (blame.go)
//	├─ ProxyActor        one per device of another node, in the place of its batcher
//	│                    (proxy.go, remotes.go, wire.go)
//	├─ SessionActor      one per front of another node and device of this one (session.go,
//	│                    host.go, form.go)
//	└─ RequestActor      one per request: ends the stream, books it (request.go)
//	   └─ SequenceActor  one per prompt and choice: its tokens and its text
//	                     (sequence.go, transcript.go); thoughts, answer and calls told
//	                     apart (parsing.go)
//
// What decides is pure and has no actor in it: scheduler, transcript, budget,
// admission, blame. What acts is a type switch with one call per message; all
// messages and their rules are in messages.go.
//
// # The walk of a token
//
// The runner's goroutine posts StepDone to the batcher. The batcher commits,
// launches the next step, and only then sends each sequence its SequenceOutput.
// The sequence turns tokens into text and appends a delta to the request's
// [infer.Stream], from which an HTTP goroutine reads. Deltas do not pass through
// the request actor: it would add a hop per token and decide nothing. Order is
// safe all the same: a sequence appends its last delta before it reports
// SequenceFinished, and the request appends the Final after the last report.
//
// # Who dies, what follows
//
// Whoever panics is stopped, never restarted ([actor.SupervisorStrategy] in
// supervision.go). A step fails with an error, with a panic, with a result that is
// no answer to its plan, or, past Config.StepTimeout, by not ending at all; then
// its batcher stops. A device whose step does not end is abandoned: nobody waits
// for it, and it is freed when the step ends after all. While it stops, the
// batcher answers every sequence it knows; sequences whose AddSequence it never
// saw learn of it because they watch it. Each asks the supervisor for the next
// batcher, another one that lives or the next life of this one, and resubmits
// prompt and output so far; since a token is a function of logits, seed and
// position alone, it goes on as if nothing had happened. The first step of a
// batcher waits for those that lost the last one, so that they are computed again
// together.
//
// Who breaks steps is found out by blame.go. A failure in company convicts nobody.
// After the first one sequences that have tokens share steps again, newcomers run
// alone; after the second one all who were aboard run alone, until a token clears
// them. A sequence under which three steps to itself fail is taken for the cause if
// the device did other work before the last of them and nothing failed without it;
// else five must fail: two devices may well break one after the other under an
// innocent one. One that an [infer.SequenceFault] names is failed at once. When
// nothing whatever goes well for Config.RecoveryTimeout it is an outage: nobody is to
// blame, and those who wait get its error.
//
// A sequence or request that panics fails its own request. In each case the stream
// ends with exactly one Final.
//
// # Rules that protoactor teaches
//
// Each of these was learned from a failure; keep them when you change something.
//
//   - No blocking and no future in Receive. A loop or a long call lives in a
//     goroutine that only sends a message back.
//   - Messages behind a stop vanish, neither delivered nor dead-lettered. Never
//     conclude from a Send that it arrived: watch first, then send.
//   - Terminated, Watch and Stop are system messages and overtake user messages
//     that were sent before them. What must be seen in order is looked at after a
//     message to oneself (RequestActor), or when an answer to a later question
//     arrives (SequenceActor: outputs of a dead batcher come before BatcherReady).
//   - While an actor waits for its children to stop it still gets user messages,
//     and what it spawns then is never stopped (SupervisorActor.stopping).
//   - A panic in the handler of Stopping leaves an actor half dead for ever, so
//     those handlers only send and append.
//   - A watcher is remembered until it unwatches, even when it is long gone.
//   - Send to a nil PID panics in the sender.
//   - A sequence has a mailbox of ours (runMailbox) that hands outputs over in runs:
//     the stream, the series and what lookers-on see are written once per run.
//     Whatever is not an output comes after that, so nothing is seen out of order.
//   - Mailboxes are unbounded; admission is the bound. Bounded ones block the
//     sender or spin.
//   - Not used: router, futures, ReceiveTimeout, stash, sender middleware.
package actors
