// Package infer is the vocabulary of Troupe: the words that cross package
// borders and the interfaces at which packages meet.
//
// It imports nothing of ours and holds no behaviour beyond small helpers on its
// own types. The HTTP layer turns wire types into a [Request] and reads a
// [Stream]; the actors implement [Generator] and drive a [Runner]; the model
// implements [Runner]. Those three interfaces are the only seams between them. What
// is beside that walk has interfaces of its own: an [Inspector] looks into it, a
// [Toolbox] is what models may use between two turns of it.
//
// Units and conventions used throughout:
//   - Instants are int64 nanoseconds of one process's monotonic clock ([Now]);
//     0 means "not known". They never leave the process.
//   - Counts are named Num…Tokens. Token ids are int32.
//   - A value sent to another actor is never changed afterwards.
package infer
