// Package testkit holds what tests of several packages share: a scripted device
// that checks its plans and fails on command ([Device], [Runner]), an actor that
// records what it is sent ([Recorder]), and builders of small requests, engines'
// parts and tokenizers. Only tests import it.
package testkit
