package actors

import "github.com/troupe-llm/troupe/scheduler"

// OnCommit lets a test look at a batcher's scheduler after each step, on the batcher's
// thread. Call it before the first request.
func (e *Engine) OnCommit(f func(*scheduler.Scheduler)) { e.env.onCommit = f }
