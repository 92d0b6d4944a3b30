// Package reqlog logs requests and outputs for --enable-log-requests and
// --enable-log-outputs. It stands between the HTTP layer and the engine as an
// [infer.Generator] of its own, so that neither knows of it and nothing is paid
// for it when it is off.
package reqlog
