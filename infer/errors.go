package infer

import (
	"errors"
	"fmt"
	"time"
)

// Code classifies an [Error]. The HTTP layer has one table from Code to status
// and to the error type that vLLM writes.
type Code string

// The codes. Everything that is not an *Error is CodeInternal.
const (
	CodeMalformed      Code = "malformed"       // 400: the body fails schema validation
	CodeInvalid        Code = "invalid"         // 400: well-formed, but the value is not acceptable
	CodeContextLength  Code = "context_length"  // 400: prompt (+ max_tokens) does not fit the context
	CodeUnauthorized   Code = "unauthorized"    // 401
	CodeModelNotFound  Code = "model_not_found" // 404
	CodeNotFound       Code = "not_found"       // 404
	CodeTooLarge       Code = "too_large"       // 413
	CodeUnprocessable  Code = "unprocessable"   // 422
	CodeRateLimited    Code = "rate_limited"    // 429
	CodeInternal       Code = "internal"        // 500: logged, never shown
	CodeEngineFault    Code = "engine_fault"    // 500: the engine fails at this request; the message says so
	CodeNotImplemented Code = "not_implemented" // 501: known to vLLM, not (yet) to us
	CodeOverloaded     Code = "overloaded"      // 503: admission limit reached
	CodeUnavailable    Code = "unavailable"     // 503: draining, or no engine is alive
)

// Error is the one error type that crosses package borders. Message is for the
// client: it names the field, the limit and the value, and holds no internals.
type Error struct {
	Code       Code
	Param      string        // the request field at fault, "" if none
	Message    string        // for the client
	RetryAfter time.Duration // > 0 on CodeOverloaded, CodeUnavailable and CodeRateLimited when known
	Err        error         // the cause, for the log only
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsInternal reports whether the fault is the server's own: a 500.
func (c Code) IsInternal() bool { return c == CodeInternal || c == CodeEngineFault }

// Errorf builds an *Error with a formatted client message.
func Errorf(code Code, param, format string, args ...any) *Error {
	return &Error{Code: code, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Internal wraps a cause that the client must not see.
func Internal(err error) *Error {
	return &Error{Code: CodeInternal, Message: "Internal server error", Err: err}
}

// AsError returns the *Error in err's chain, or wraps err as internal. nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Internal(err)
}
