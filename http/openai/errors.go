package openai

import (
	"strconv"

	"github.com/troupe-llm/troupe/infer"
)

// wireError is how one code looks to a client.
type wireError struct {
	status int
	kind   string // error.type, in vLLM's words
	reason string // error.reason, in OpenAI's words
}

const (
	reasonInvalidRequest = "invalid_request_error"
	reasonOverloaded     = "server_overloaded"
	reasonInternal       = "internal_error"
)

var wireErrors = map[infer.Code]wireError{
	infer.CodeMalformed:      {400, "Bad Request", reasonInvalidRequest},
	infer.CodeInvalid:        {400, "BadRequestError", reasonInvalidRequest},
	infer.CodeContextLength:  {400, "BadRequestError", "context_length_exceeded"},
	infer.CodeUnauthorized:   {401, "Unauthorized", reasonInvalidRequest},
	infer.CodeModelNotFound:  {404, "NotFoundError", "model_not_found"},
	infer.CodeNotFound:       {404, "Not Found", reasonInvalidRequest},
	infer.CodeTooLarge:       {413, "Request Entity Too Large", reasonInvalidRequest},
	infer.CodeUnprocessable:  {422, "UnprocessableEntityError", reasonInvalidRequest},
	infer.CodeRateLimited:    {429, "Too Many Requests", "rate_limit_exceeded"},
	infer.CodeInternal:       {500, "InternalServerError", reasonInternal},
	infer.CodeEngineFault:    {500, "InternalServerError", reasonInternal},
	infer.CodeNotImplemented: {501, "NotImplementedError", reasonInvalidRequest},
	infer.CodeOverloaded:     {503, "Service Unavailable", reasonOverloaded},
	infer.CodeUnavailable:    {503, "Service Unavailable", reasonOverloaded},
}

// Problem is an error as it goes to the client.
type Problem struct {
	Status  int    // HTTP status, also written as error.code
	Type    string // error.type: vLLM's word
	Reason  string // error.reason: OpenAI's own code word, for clients that match on it
	Param   string // "" is written as null
	Message string
	// RequestID is what an internal error can be found by in the server's log; "" is
	// left out.
	RequestID string
}

// FromError looks err up in the table of codes. An unknown code is internal, and
// an internal error never shows its own text.
func FromError(err *infer.Error) Problem {
	w, ok := wireErrors[err.Code]
	if !ok || err.Code == infer.CodeInternal {
		w = wireErrors[infer.CodeInternal]
		return Problem{Status: w.status, Type: w.kind, Reason: w.reason, Message: "Internal server error"}
	}
	return Problem{Status: w.status, Type: w.kind, Reason: w.reason, Param: err.Param, Message: err.Message}
}

// AppendJSON appends {"error": {…}}.
func (p Problem) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = appendString(dst, p.Message)
	dst = append(dst, `,"type":`...)
	dst = appendString(dst, p.Type)
	dst = append(dst, `,"param":`...)
	dst = appendStringOrNull(dst, p.Param)
	dst = append(dst, `,"code":`...)
	dst = strconv.AppendInt(dst, int64(p.Status), 10)
	dst = append(dst, `,"reason":`...)
	dst = appendString(dst, p.Reason)
	if p.RequestID != "" {
		dst = appendString(append(dst, `,"request_id":`...), p.RequestID)
	}
	return append(dst, "}}"...)
}
